#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Installs a release package of Verbena on Debian or Ubuntu, as root or with sudo.
#
#	install.sh PACKAGE     a file, or an address that curl can read
set -eu

package=$1
as_root=
[ "$(id -u)" -eq 0 ] || as_root="sudo -n"

$as_root apt-get -qq update
case "$package" in
*://*)
	# Images for containers have no curl.
	command -v curl >/dev/null || $as_root env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq install -y --no-install-recommends curl ca-certificates
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	chmod 755 "$folder"	# apt reads it as another user
	curl --fail --silent --show-error --location --retry 3 --output "$folder/verbena.deb" \
		"$package"
	package=$folder/verbena.deb
	;;
esac
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
	"$(realpath "$package")"
