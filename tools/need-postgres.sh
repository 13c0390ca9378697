#!/bin/sh
# Makes sure that the programs of a PostgreSQL server are there for the tests, which start private clusters
# with them. Installs them where that is possible without asking (as root with apt-get), and never starts a
# server. Looks where storetest looks, in the same order.
set -u

find_postgres() {
	for dir in ${PG_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -rV) \
		$(pg_config --bindir 2>/dev/null) \
		$(dirname "$(command -v initdb 2>/dev/null || echo /nowhere/initdb)")}; do
		if [ -x "$dir/initdb" ] && [ -x "$dir/postgres" ]; then
			echo "$dir"
			return 0
		fi
	done
	return 1
}

install_postgres() {
	# The package's own script must not create and start a cluster for the whole machine, nor may the
	# installation start services.
	conf=/etc/postgresql-common/createcluster.conf
	if [ ! -e "$conf" ]; then
		mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' >"$conf"
	fi
	export DEBIAN_FRONTEND=noninteractive UCF_FORCE_CONFFOLD=1 RUNLEVEL=1
	apt_get() { apt-get -qq -o Dpkg::Options::=--force-confold "$@" >&2; }
	apt_get update && { apt_get install -y --no-install-recommends postgresql-15 2>/dev/null ||
		apt_get install -y --no-install-recommends postgresql; }
}

case "${MADEIRA_TEST_POSTGRES:-}" in
postgres://* | postgresql://*)
	echo "the tests run on: sqlite (embedded), postgresql (the server that MADEIRA_TEST_POSTGRES names)"
	exit 0
	;;
esac

if ! dir=$(find_postgres); then
	if [ -z "${PG_BIN:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		echo "postgresql: not found, installing it with apt-get" >&2
		install_postgres
	fi
	if ! dir=$(find_postgres); then
		echo "postgresql: not found; install the server (Debian: apt-get install postgresql, macOS: brew install postgresql), or set PG_BIN to the folder that holds initdb and postgres" >&2
		exit 1
	fi
fi
echo "the tests run on: sqlite (embedded), postgresql $("$dir/postgres" --version | sed 's/^postgres (PostgreSQL) //') ($dir)"
