#!/usr/bin/env bash
#
# Builds an Erlang VM with USDT probes from the distribution's own source
# package, once, and prints the path of its erl.
#
#   erlang/otp/build.sh              # builds if need be; stdout: …/bin/erl
#   BEAMSCOPE_OTP=/opt/otp build.sh  # checks that VM, builds nothing
#
# The VM goes to ${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/otp-<version>. It is
# built aside and renamed when it has passed its checks, so a folder of that
# name is always complete; remove it to build anew. Runs at the same time wait
# for each other. Progress goes to stderr, the full log to a file beside it.
#
# Needs Debian or a descendant. Missing packages are installed when run as
# root. About five minutes on two cores.

set -euo pipefail
export LC_ALL=C

cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope
log=$cache/otp-build.log
began=$SECONDS
work=                       # everything unfinished lies in here
child=                      # process group of the phase under way

packages=(systemtap-sdt-dev gcc g++ make autoconf m4 perl
          libncurses-dev libssl-dev dpkg-dev)

# What neither the oscilloscope nor the servers we look at (RabbitMQ, ejabberd)
# use, or what drags in a graphical toolkit or Java.
without=(wx observer debugger et reltool megaco odbc jinterface javac
         diameter snmp ftp tftp erl_docgen)

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "build.sh: $*"
    exit 1
}

elapsed() { printf '%d:%02d' $(((SECONDS - began) / 60)) $(((SECONDS - began) % 60)); }

# has_probes ERL: does this VM have probes, and can Erlang code fire them?
# The installed scripts hold the final path, hence ERL_ROOTDIR from the caller
# while the tree still lies elsewhere.
has_probes() {
    [ "$("$1" -noinput -boot start_clean -eval '
        Static = erlang:system_info(dynamic_trace),
        Module = try dyntrace:available() catch _:_ -> false end,
        io:format("~p ~p", [Static, Module]), halt().' 2>/dev/null </dev/null)" = "systemtap true" ]
}

# The newest finished build, if there is one.
built() {
    local erl
    erl=$(printf '%s\n' "$cache"/otp-[0-9]*/bin/erl | sort -V | tail -n 1)
    [ -x "$erl" ] && printf '%s\n' "$erl"
}

# phase TITLE COMMAND…: runs the command into the log. A terminal sees the
# compilers' progress; everything else gets one line when the phase is over.
phase() {
    local title=$1 from status=0
    shift
    from=$(wc -l <"$log")
    printf '\n### %s\n' "$title" >>"$log"
    # A process group of its own, to be stopped as a whole; and without our
    # lock, so that what outlives us all the same keeps nobody waiting.
    set -m
    "$@" >>"$log" 2>&1 </dev/null 9>&- &
    child=$!
    set +m
    while [ -t 2 ] && kill -0 "$child" 2>/dev/null; do
        printf '\r\033[K%s  %s … %s' "$(elapsed)" "$title" "$(counter "$from")" >&2
        sleep 1
    done
    wait "$child" || status=$?
    child=
    [ -t 2 ] && printf '\r\033[K' >&2
    if [ "$status" -ne 0 ]; then
        say "$(elapsed)  $title: failed"
        tail -n 20 "$log" >&2
        fail "$title failed; the whole log is in $log"
    fi
    say "$(elapsed)  $title$(counter "$from" ': ')"
}

# counter LINE [PREFIX]: files compiled since that line of the log, in words.
counter() {
    local n
    n=$(tail -n "+$(($1 + 1))" "$log" | grep -cE '^ +(CC|CXX|ERLC|[A-Z-]*CC)\s|^(gcc|erlc)\s|/erlc\s' || true)
    [ "$n" -eq 0 ] || printf '%s%d files compiled' "${2:-}" "$n"
}

interrupted() {
    trap '' INT TERM HUP
    if [ -n "$child" ]; then
        kill -- "-$child" 2>/dev/null || true
        wait "$child" 2>/dev/null || true
    fi
    rm -rf "$work" || true
    say "build.sh: interrupted; nothing was installed"
    exit 130
}

missing_packages() {
    local p
    for p in "${packages[@]}"; do
        dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || printf '%s ' "$p"
    done
}

install_packages() {
    local missing
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" -ne 0 ]; then
        fail "these packages are needed first: sudo apt-get install $missing"
    fi
    phase "install ${missing% }" eval "
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing ||
        { apt-get update &&
          DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing; }"
}

# An apt of our own, whose sources are the system's with deb turned into
# deb-src. The system's lists and caches stay as they are, and options such as
# signed-by come along because the entries are copied whole.
private_apt() {
    local dir=$work/apt parts list f
    mkdir -p "$dir/sources.d" "$dir/lists/partial" "$dir/cache/archives/partial"
    eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
    for f in "$list" "$parts"/*.list; do
        [ -f "$f" ] || continue
        sed -nE 's/^[[:space:]]*deb([[:space:]])/deb-src\1/p' "$f" >"$dir/sources.d/$(basename "$f")"
    done
    for f in "$parts"/*.sources; do
        [ -f "$f" ] || continue
        sed -E 's/^Types:.*/Types: deb-src/I' "$f" >"$dir/sources.d/$(basename "$f")"
    done
    # Hooks of the system's apt would fail for a user who is not root; the
    # sandbox user could not write into our folder.
    cat >"$dir/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$dir/sources.d";
Dir::State::lists "$dir/lists";
Dir::Cache "$dir/cache";
APT::Sandbox::User "root";
CONF
}

own_apt_get() { apt-get -c "$work/apt/apt.conf" "$@"; }

unpack_source() { cd "$work" && own_apt_get source erlang; }

configure_otp() {
    cd "$ERL_TOP"
    ./otp_build autoconf
    ./configure --prefix="$prefix" --with-dynamic-trace=systemtap "${without[@]/#/--without-}"
}

compile_otp() { cd "$ERL_TOP" && make -j"$(nproc)"; }

install_otp() { cd "$ERL_TOP" && make install DESTDIR="$work/root"; }

check_given() {
    local erl=$BEAMSCOPE_OTP/bin/erl
    [ -x "$erl" ] || fail "BEAMSCOPE_OTP=$BEAMSCOPE_OTP has no bin/erl"
    has_probes "$erl" ||
        fail "BEAMSCOPE_OTP=$BEAMSCOPE_OTP has no probes: it must be configured --with-dynamic-trace=systemtap, with runtime_tools"
    realpath -s "$erl"
}

main() {
    if [ -n "${BEAMSCOPE_OTP:-}" ]; then
        check_given
        return
    fi
    built && return
    command -v apt-get >/dev/null ||
        fail "needs Debian or a descendant; set BEAMSCOPE_OTP to a VM configured --with-dynamic-trace=systemtap"

    mkdir -p "$cache"
    exec 9>"$cache/otp-build.lock"
    if ! flock -n 9; then
        say "another build is under way, waiting for it"
        flock 9
    fi
    built && return # the other one was successful

    trap interrupted INT TERM HUP
    rm -rf "$cache"/otp-build.?????? || true # of builds that were killed
    work=$(mktemp -d "$cache/otp-build.XXXXXX")
    : >"$log"

    install_packages
    phase 'prepare the list of sources' private_apt
    phase 'fetch the list of sources' own_apt_get update
    phase 'fetch the source' unpack_source

    ERL_TOP=$(printf '%s\n' "$work"/erlang-*/OTP_VERSION)
    ERL_TOP=${ERL_TOP%/OTP_VERSION}
    [ -d "$ERL_TOP" ] || fail "no source tree in $work"
    export ERL_TOP
    version=$(<"$ERL_TOP/OTP_VERSION")
    prefix=$cache/otp-$version
    say "         Erlang/OTP $version"

    phase configure configure_otp
    phase compile compile_otp
    phase install install_otp

    ERL_ROOTDIR=$work/root$prefix/lib/erlang has_probes "$work/root$prefix/bin/erl" ||
        fail "the VM was built but has no probes; see $log"
    rm -rf "$prefix" # a folder without bin/erl; cannot be ours
    mv "$work/root$prefix" "$prefix"
    rm -rf "$work"
    say "$(elapsed)  done"
    built
}

main "$@"
