#!/usr/bin/env bash
# Runs RabbitMQ or ejabberd as Debian ships them, on Debian's own Erlang VM, which has no probes:
# of Debian 12 with OTP 25, or of Debian 13 with OTP 27. Their packages, and all that these depend on,
# are unpacked into the cache folder and not installed. The server runs there as in a container, with
# a root file system, a network, a host name, users and temporary folders of its own. It leaves
# nothing behind. Usage:
#
#   scripts/stock-server.sh 25|27 rabbitmq|ejabberd start  returns when it takes connections
#   ... pid                          prints the pid of its VM
#   ... load [20s|N [RATE]]          clients send messages to each other for so long, or N messages,
#                                    RATE a second or as fast as they can, and print the throughput
#   ... spans [SECONDS]              has messages run in spans within its VM, with the application
#                                    beamscope, which is loaded into the running VM: see
#                                    systems/rabbitmq_spans.erl and systems/ejabberd_spans.erl. ejabberd
#                                    needs load meanwhile
#   ... library                      compiles what load and spans need, which they do themselves otherwise
#   ... eval EXPRESSION              prints what an Erlang expression gives in its VM
#   ... run COMMAND...               runs a command beside it, as root
#   ... stop                         stops it
#   scripts/stock-server.sh 25|27 root   prints the folder with the packages
set -euo pipefail

help() {
	sed -n '/^# nothing behind. Usage:/,/^set/s/^# \{0,1\}//p' "$0" | sed 1,2d >&2
	exit 2
}

[ $# -ge 2 ] || help
release=$1 server=$2
shift 2

case $release in
25) suite=bookworm ;;
27) suite=trixie ;;
*) help ;;
esac
# shellcheck source=scripts/systems/common.sh
. "$(dirname "$0")/systems/common.sh"
system=stock-server
root=$cache/debian/servers-$release
dir=$cache/systems/$server-$release-$instance

# in_suite FOLDER COMMAND...: runs an apt command with lists of the suite, as on a machine without any package.
in_suite() (
	work=$1
	shift
	mkdir -p "$work"/apt/{sources,lists/partial,cache/archives/partial}
	: >"$work/apt/status"
	cat >"$work/apt/sources/suite.sources" <<-END
		Types: deb
		URIs: http://deb.debian.org/debian
		Suites: $suite
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	END
	cat >"$work/apt/conf" <<-END
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$work/apt/sources";
		Dir::State::lists "$work/apt/lists";
		Dir::State::status "$work/apt/status";
		Dir::Cache "$work/apt/cache";
		APT::Sandbox::User "root";
		APT::Install-Recommends "false";
	END
	APT_CONFIG=$work/apt/conf "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && fail "cannot download RabbitMQ and ejabberd of Debian's $suite"; }
)

# unpack_root: unpacks the packages into the cache folder, unless that was done.
unpack_root() {
	[ ! -d "$root" ] || return 0
	command -v apt-get >/dev/null || fail "needs packages of Debian, and there is no apt-get"
	[ "$(dpkg --print-architecture)" = amd64 ] || fail "the builds of the VM that are known are for amd64"
	[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || fail "needs the package debian-archive-keyring"
	local work deb
	mkdir -p "$cache/debian"
	work=$(mktemp -d "$cache/debian/unpack.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$work'" EXIT
	echo "fetching RabbitMQ and ejabberd of Debian's $suite, 90 MB" >&2
	in_suite "$work" apt-get -q update
	in_suite "$work" apt-get -q -y --download-only install rabbitmq-server ejabberd \
		bash coreutils findutils gawk grep hostname iproute2 openssl procps sed util-linux
	mkdir -p "$work"/root/{dev,proc,tmp,root,usr/{bin,lib,lib64,sbin}}
	for deb in bin lib lib64 sbin; do
		ln -s "usr/$deb" "$work/root/$deb"
	done
	for deb in "$work"/apt/cache/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$work/root" --keep-directory-symlink \
			--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
	done
	# What the packages would do when they are installed.
	ln -sf gawk "$work/root/usr/bin/awk"
	ln -sf bash "$work/root/usr/bin/sh"
	printf '%s\n' root:x:0:0::/root:/bin/bash rabbitmq:x:990:990::/var/lib/rabbitmq:/usr/sbin/nologin \
		ejabberd:x:991:991::/var/lib/ejabberd:/usr/sbin/nologin nobody:x:65534:65534::/:/usr/sbin/nologin >"$work/root/etc/passwd"
	printf '%s\n' root:x:0: rabbitmq:x:990: ejabberd:x:991: nogroup:x:65534: >"$work/root/etc/group"
	printf '127.0.0.1 localhost\n' >"$work/root/etc/hosts"
	mv -T "$work/root" "$root" 2>/dev/null || [ -d "$root" ] # another run may have been faster
}

# The first process of the server, as root in the new namespaces: state is in folders that end with it.
# shellcheck disable=SC2016 # the shell in the new namespaces expands this and the next two
inside='
set -e
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
for folder in tmp run var/lib/rabbitmq var/log/rabbitmq var/lib/ejabberd var/log/ejabberd; do
	mkdir -p "$1/$folder"
	mount -t tmpfs -o mode=755 tmpfs "$1/$folder"
done
chmod 1777 "$1/tmp"
hostname localhost
chroot "$1" ip link set lo up
chroot "$1" chown rabbitmq: /var/lib/rabbitmq /var/log/rabbitmq
chroot "$1" chown ejabberd: /var/lib/ejabberd /var/log/ejabberd
'

# What starts each server as its user, as the unit for systemd does.
# shellcheck disable=SC2016,SC2034
rabbitmq='
cd /
exec chroot --userspec=rabbitmq:rabbitmq "$1" /usr/bin/env -i HOME=/var/lib/rabbitmq PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 \
	RABBITMQ_PID_FILE=/var/lib/rabbitmq/pid /usr/lib/rabbitmq/bin/rabbitmq-server
'
# The configuration comes from the package, with a certificate, users who can log in, and no limits
# for their messages.
# shellcheck disable=SC2016,SC2034
ejabberd='
sed -e "s|/etc/ejabberd/ejabberd.pem|/var/lib/ejabberd/ejabberd.pem|" -e "s/rate: 3000/rate: 100000000/" -e "s/loglevel: info/loglevel: warning/" \
	"$1/usr/share/ejabberd/ejabberd.yml.example" >"$1/var/lib/ejabberd/ejabberd.yml"
chroot "$1" openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -days 2 -keyout /tmp/key -out /tmp/certificate 2>/dev/null
cat "$1/tmp/key" "$1/tmp/certificate" >"$1/var/lib/ejabberd/ejabberd.pem"
chroot "$1" chown ejabberd: /var/lib/ejabberd/ejabberd.pem
cd /
exec chroot --userspec=ejabberd:ejabberd "$1" /usr/bin/env -i HOME=/var/lib/ejabberd PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 \
	EJABBERD_PID_PATH=/var/lib/ejabberd/pid ejabberdctl --config /var/lib/ejabberd/ejabberd.yml foreground
'

# in_server COMMAND...: runs a command beside the server, as root.
in_server() {
	nsenter -t "$(server)" --mount --net --uts --root /usr/bin/env -i -C /tmp HOME=/root PATH=/usr/sbin:/usr/bin LANG=C.UTF-8 "$@"
}

# as_user COMMAND...: the same as the user of the server.
as_user() { in_server setpriv --reuid="$server" --regid="$server" --clear-groups env HOME="/var/lib/$server" "$@"; }

# evaluate EXPRESSION: prints its value in the server's VM.
evaluate() {
	as_user erl -noshell -hidden -sname "ctl$$" -eval '
		Node = list_to_atom(hd(init:get_plain_arguments()) ++ "@localhost"),
		{ok, Tokens, _} = erl_scan:string(lists:nth(2, init:get_plain_arguments()) ++ "."),
		{ok, Parsed} = erl_parse:parse_exprs(Tokens),
		case rpc:call(Node, erl_eval, exprs, [Parsed, []]) of
			{value, Value, _} -> io:format("~tp~n", [Value]), halt(0);
			Error -> io:format(standard_error, "~tp~n", [Error]), halt(1)
		end.' -extra "$node" "$1"
}

# library: compiles the modules for the server's VM, and those that drive it from outside.
library() {
	in_server test ! -d /tmp/beamscope/ebin || return 0
	in_server mkdir -p /tmp/beamscope/src /tmp/beamscope/ebin
	tar -c -C "$here/.." erlang/beamscope/src scripts/systems | in_server tar -x -C /tmp/beamscope/src
	in_server sh -c "cd /tmp/beamscope && ERL_LIBS=\$(echo /usr/lib/rabbitmq/lib/*/plugins) erlc -o ebin src/erlang/beamscope/src/*.erl src/scripts/systems/{$server,rabbitmq_figures}*.erl"
}

# users: creates the users that exchange messages.
users() {
	evaluate '[ejabberd_auth:try_register(<<"user", (integer_to_binary(N))/binary>>, <<"localhost">>, <<"secret">>) || N <- lists:seq(1, 8)], ok' >/dev/null
}

start() {
	[ "$(id -u)" = 0 ] || fail "only root can start a server with a root file system of its own"
	unpack_root
	fresh
	trap 'kill "$(cat "$dir/started")" 2>/dev/null; echo "$server does not start:" >&2; tail -n 20 "$dir/output" >&2; rm -rf "$dir"' EXIT
	in_background unshare --mount --net --uts --ipc bash -c "$inside${!server}" "$server" "$root"
	await "$(cat "$dir/started")"
	trap - EXIT
	echo "$server of Debian's $suite, pid $(server), takes connections"
}

# await PID: waits until the server has written its pid and takes connections.
await() {
	local deadline=$((SECONDS + 120)) pid=
	until [ -n "$pid" ] && nsenter -t "$pid" --net bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null; do
		kill -0 "$1" 2>/dev/null || return 1
		((SECONDS < deadline)) || return 1
		sleep 0.1
		pid=$(cat "/proc/$1/root/var/lib/$server/pid" 2>/dev/null) || true
	done
	echo "$pid" >"$dir/pid"
}

# ours PID: is this the VM of the instance? Numbers of processes come again.
ours() { [[ "$(readlink "/proc/$1/root" 2>/dev/null)" = "$root" ]]; }

# server: prints the pid of the server's VM.
server() {
	local pid
	pid=$(cat "$dir/pid" 2>/dev/null) || pid=
	ours "$pid" || fail "$server of OTP $release does not run: $0 $release $server stop, and start"
	echo "$pid"
}

case $server in
rabbitmq) node=rabbit port=5672 ;;
ejabberd) node=ejabberd port=5222 ;;
root)
	unpack_root
	echo "$root"
	exit
	;;
*) help ;;
esac

command=${1-}
[ $# -eq 0 ] || shift
case $command in
start) start ;;
pid) server ;;
load)
	library
	[ "$server" != ejabberd ] || users
	in_server env ERL_LIBS="$(printf '%s' "$root"/usr/lib/rabbitmq/lib/*/plugins | sed "s|$root||")" \
		ERL_FLAGS="-pa /tmp/beamscope/ebin" ERL_CRASH_DUMP_SECONDS=0 escript "/tmp/beamscope/src/scripts/systems/${server}_load.escript" "$port" "${1-20s}" "${2-0}"
	;;
spans)
	library
	case $server in
	rabbitmq) spans="rabbitmq_spans:run(\"slow-consumer\", \"${1-20}s\", \"200\", false)" ;;
	ejabberd) spans="ejabberd_spans:run(${1-20})" ;;
	esac
	evaluate "code:add_pathz(\"/tmp/beamscope/ebin\"), $spans"
	;;
eval) evaluate "$1" ;;
library) library ;;
run) in_server "$@" ;;
stop)
	[ -d "$dir" ] || fail "instance $instance does not run"
	end
	rm -rf "$dir"
	;;
*) help ;;
esac
