/* SPDX-License-Identifier: BSD-2-Clause */
/* The vocabulary, as tables, and their look-up. */
#include "fault/words.h"

#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "util/compiler.h"

const struct fault_name fault_kinds[] = {
	{ "packet", FAULT_PACKET }, { "message", FAULT_MESSAGE },
	{ "verb", FAULT_VERB },	    { "completion", FAULT_COMPLETION },
	{ "wr", FAULT_WR },	    { "cm", FAULT_CM },
	{ NULL },
};

const struct fault_name fault_verbs[] = {
#define NAME_POINTER(name) { "ibv_" #name, VERB_##name },
#define NAME_ERRNO(name) NAME_POINTER(name)
#define NAME_MINUS(name) NAME_POINTER(name)
#define NAME_NOTHING(name)
#define VERB(name, number, answer) NAME_##answer(name)
#include "wq/verb.def"
#undef VERB
	{ NULL },
};

const struct fault_name fault_cm_messages[] = {
	{ "REQ", FAULT_REQ },		{ "MRA", FAULT_MRA },	{ "REJ", FAULT_REJ },
	{ "REP", FAULT_REP },		{ "RTU", FAULT_RTU },	{ "DREQ", FAULT_DREQ },
	{ "DREP", FAULT_DREP },		{ "LAP", FAULT_LAP },	{ "APR", FAULT_APR },
	{ "SIDR_REQ", FAULT_SIDR_REQ }, { "SIDR_REP", FAULT_SIDR_REP },
	{ NULL },
};

const struct fault_name fault_directions[] = {
	{ "tx", FAULT_TX },
	{ "rx", FAULT_RX },
	{ NULL },
};

#define ERRNO(name) { #name, name }
const struct fault_name fault_errnos[] = {
	ERRNO(EACCES),	   ERRNO(EAGAIN), ERRNO(EBUSY),	 ERRNO(EEXIST), ERRNO(EFAULT),
	ERRNO(EINTR),	   ERRNO(EINVAL), ERRNO(EIO),	 ERRNO(EMFILE), ERRNO(ENFILE),
	ERRNO(ENODEV),	   ERRNO(ENOENT), ERRNO(ENOMEM), ERRNO(ENOSPC), ERRNO(ENOSYS),
	ERRNO(EOPNOTSUPP), ERRNO(EPERM),  ERRNO(EPROTO), ERRNO(ERANGE), ERRNO(ETIMEDOUT),
	{ NULL },
};

#define STATUS(name) { #name, IBV_WC_##name }
const struct fault_name fault_statuses[] = {
	STATUS(LOC_LEN_ERR),	   STATUS(LOC_QP_OP_ERR),    STATUS(LOC_EEC_OP_ERR),
	STATUS(LOC_PROT_ERR),	   STATUS(WR_FLUSH_ERR),     STATUS(MW_BIND_ERR),
	STATUS(BAD_RESP_ERR),	   STATUS(LOC_ACCESS_ERR),   STATUS(REM_INV_REQ_ERR),
	STATUS(REM_ACCESS_ERR),	   STATUS(REM_OP_ERR),	     STATUS(RETRY_EXC_ERR),
	STATUS(RNR_RETRY_EXC_ERR), STATUS(LOC_RDD_VIOL_ERR), STATUS(REM_INV_RD_REQ_ERR),
	STATUS(REM_ABORT_ERR),	   STATUS(INV_EECN_ERR),     STATUS(INV_EEC_STATE_ERR),
	STATUS(FATAL_ERR),	   STATUS(RESP_TIMEOUT_ERR), STATUS(GENERAL_ERR),
	STATUS(TM_ERR),		   STATUS(TM_RNDV_INCOMPLETE),
	{ NULL },
};

#define EVENT(name) { #name, IBV_EVENT_##name }
const struct fault_name fault_events[] = {
	EVENT(PORT_ERR), EVENT(PORT_ACTIVE), EVENT(GID_CHANGE), EVENT(DEVICE_FATAL),
	EVENT(QP_FATAL), EVENT(CQ_ERR),	     EVENT(SRQ_ERR),	EVENT(PATH_MIG),
	{ NULL },
};

bool fault_event_needs_qp(uint64_t event)
{
	return event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_CQ_ERR ||
	       event == IBV_EVENT_SRQ_ERR || event == IBV_EVENT_PATH_MIG;
}

enum {
	PACKET = 1 << FAULT_PACKET,
	TRANSPORT = PACKET | 1 << FAULT_MESSAGE,
	VERB = 1 << FAULT_VERB,
	COMPLETION = 1 << FAULT_COMPLETION,
	WR = 1 << FAULT_WR,
	CM = 1 << FAULT_CM,
	OF_QP = TRANSPORT | COMPLETION | WR,
	ALL = OF_QP | VERB | CM,
};

const struct fault_term fault_selectors[] = {
	{ "qp", FAULT_QP, OF_QP },
	{ "qp_index", FAULT_QP_INDEX, OF_QP },
	{ "tx", FAULT_DIRECTION, OF_QP | CM },
	{ "rx", FAULT_DIRECTION, OF_QP | CM },
	{ "opcode", FAULT_OPCODE, TRANSPORT },
	{ "psn", FAULT_PSN, TRANSPORT },
	{ "nth", FAULT_NTH, ALL },
	{ "every", FAULT_EVERY, ALL },
	{ "chance", FAULT_CHANCE, ALL },
	{ NULL },
};

const struct fault_term fault_actions[] = {
	{ "drop", FAULT_DROP, TRANSPORT | CM, FAULT_NO_ARGUMENT },
	{ "duplicate", FAULT_DUPLICATE, TRANSPORT | CM, FAULT_COUNT },
	{ "delay", FAULT_DELAY, TRANSPORT | CM, FAULT_TIME },
	{ "reorder", FAULT_REORDER, TRANSPORT, FAULT_COUNT },
	{ "corrupt", FAULT_CORRUPT, TRANSPORT, FAULT_NO_ARGUMENT },
	{ "mark", FAULT_MARK, TRANSPORT, FAULT_NO_ARGUMENT },
	{ "fail", FAULT_FAIL, VERB | WR, FAULT_ERRNO },
	{ "status", FAULT_STATUS, COMPLETION, FAULT_WC },
	{ "reject", FAULT_REJECT, CM, FAULT_REASON },
	{ "timeout", FAULT_TIMEOUT, CM, FAULT_NO_ARGUMENT },
	{ "raise", FAULT_RAISE, ALL, FAULT_EVENT },
	{ "stall", FAULT_STALL, ALL, FAULT_TIME },
	{ "kill", FAULT_KILL, ALL, FAULT_NO_ARGUMENT },
	{ NULL },
};

const struct fault_unit fault_units[] = {
	{ "s", 1000000000 },
	{ "ms", 1000000 },
	{ "us", 1000 },
	{ "ns", 1 },
	{ NULL },
};

#define WORD(literal) { literal, sizeof(literal) - 1 }

enum form { KIND, OPERATION, FULL, FORMS };

static const struct {
	uint8_t code;
	struct fault_word name[FORMS];
} opcodes[] = {
#define OP(code, service, operation, kind, ...)                                                    \
	{ code, { WORD(#kind), WORD(#operation), WORD(#service "_" #operation) } },
#include "roce/opcode.def"
#undef OP
};

bool fault_word_is(const struct fault_word *word, const char *name)
{
	for (size_t i = 0; i < word->len; i++) {
		if (!name[i] || name[i] != word->at[i])
			return false;
	}
	return !name[word->len];
}

const struct fault_name *fault_name_of(const struct fault_name *names,
				       const struct fault_word *word)
{
	for (; names->name; names++) {
		if (fault_word_is(word, names->name))
			return names;
	}
	return NULL;
}

const char *fault_name_for(const struct fault_name *names, uint64_t value)
{
	while (names->name && names->value != value)
		names++;
	return names->name;
}

const struct fault_term *fault_term_of(const struct fault_term *terms,
				       const struct fault_word *word)
{
	for (; terms->name; terms++) {
		if (fault_word_is(word, terms->name))
			return terms;
	}
	return NULL;
}

const struct fault_term *fault_term_for(const struct fault_term *terms, uint32_t value)
{
	while (terms->name && terms->value != value)
		terms++;
	return terms->name ? terms : NULL;
}

struct fault_opcodes fault_opcode(uint8_t opcode)
{
	return (struct fault_opcodes){
		.operations = 1u << (opcode & 0x1f),
		.services = 1u << (opcode >> 5),
	};
}

static bool same_word(const struct fault_word *a, const struct fault_word *b)
{
	return a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

bool fault_opcodes_of(struct fault_opcodes *set, const struct fault_word *word)
{
	struct fault_opcodes found = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		for (enum form form = KIND; form < FORMS; form++) {
			struct fault_opcodes one = fault_opcode(opcodes[i].code);

			if (!same_word(word, &opcodes[i].name[form]))
				continue;
			found.operations |= one.operations;
			found.services |= one.services;
		}
	}
	*set = found;
	return found.services;
}

const struct fault_word *fault_opcodes_name(const struct fault_opcodes *set)
{
	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		for (enum form form = KIND; form < FORMS; form++) {
			const struct fault_word *name = &opcodes[i].name[form];
			struct fault_opcodes named;

			fault_opcodes_of(&named, name);
			if (named.operations == set->operations && named.services == set->services)
				return name;
		}
	}
	return NULL;
}
