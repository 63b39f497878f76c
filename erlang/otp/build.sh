#!/usr/bin/env bash
#
# Builds an Erlang VM with USDT probes from the distribution's own source
# package, once, and prints the path of its erl.
#
#   erlang/otp/build.sh              # builds if need be; stdout: …/bin/erl
#   OTP=27 erlang/otp/build.sh       # the same for a release of one's choice
#   BEAMSCOPE_OTP=/opt/otp build.sh  # checks that VM, builds nothing
#
# Without OTP the script takes the release that the system's own suite has.
# Another release comes from the first suite of Debian that has it.
#
# The VM goes to ${XDG_CACHE_HOME:-$HOME/.cache}/beamscope/otp-<version>. The
# script builds it elsewhere and renames it when it has passed its checks, so a
# folder of that name is always complete; remove it to build anew. A VM from
# another suite has a file "suite" in its folder, and only OTP=<release> finds
# it. Runs for the same release wait for each other, others go on side by side.
# Progress goes to stderr, the full log to a file beside the VM.
#
# Needs Debian or a descendant. Missing packages are installed when run as
# root. 5 to 10 minutes on two cores.

set -euo pipefail
export LC_ALL=C

cache=${XDG_CACHE_HOME:-$HOME/.cache}/beamscope
release=${OTP:-}            # major version; empty: the system's own
build=otp-build${release:+-$release}
log=$cache/$build.log
suites=(bookworm trixie forky sid) # of Debian, where other releases come from
suite=                      # the one that was taken, if not the system's own
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

# The newest finished build of the release, if there is one. Without a release
# those from other suites do not count.
built() {
    local dir found=
    # shellcheck disable=SC2086 # a pattern
    while read -r dir; do
        [ -x "$dir/bin/erl" ] || continue
        [ -n "$release" ] || [ ! -e "$dir/suite" ] || continue
        found=$dir/bin/erl
    done < <(printf '%s\n' "$cache"/otp-${release:-[0-9]*}.* | sort -V)
    [ -n "$found" ] && printf '%s\n' "$found"
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
        export DEBIAN_FRONTEND=noninteractive
        lock='-o DPkg::Lock::Timeout=300'
        apt-get \$lock install -y --no-install-recommends $missing ||
        { apt-get \$lock update && apt-get \$lock install -y --no-install-recommends $missing; }"
}

# own_suite: the suite that the system was installed from.
own_suite() { (. /etc/os-release && printf '%s\n' "${VERSION_CODENAME:-}"); }

# private_apt [SUITE]: makes an apt of our own, whose sources are the system's
# with deb turned into deb-src. The system's lists and caches stay as they are.
# Options such as signed-by come along because the entries are copied whole.
# With a suite, that one stands in the place of the system's own; its updates,
# security updates and whatever else is in the system's lists are left out.
private_apt() {
    local dir=$work/apt parts list f own
    own=$(own_suite)
    rm -rf "$dir"
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
    if [ -n "${1:-}" ]; then
        [ -n "$own" ] || return 1
        for f in "$dir"/sources.d/*; do
            case $f in
            *.list) sed -i -nE "s/^(.*[[:space:]])$own([[:space:]].*)$/\\1$1\\2/p" "$f" ;;
            *) replace_suite "$own" "$1" <"$f" >"$f.new" && mv "$f.new" "$f" ;;
            esac
        done
    fi
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

# replace_suite OWN OTHER: of the entries in deb822 form on stdin, those that have
# the suite, with the other one alone.
replace_suite() {
    awk -v RS= -v ORS='\n\n' -v own="$1" -v other="$2" '
        {
            n = split($0, lines, "\n")
            entry = ""
            found = 0
            for (i = 1; i <= n; i++) {
                if (tolower(lines[i]) ~ /^suites:/) {
                    m = split(lines[i], suites, /[ \t]+/)
                    for (j = 2; j <= m; j++) if (suites[j] == own) found = 1
                    lines[i] = "Suites: " other
                }
                entry = entry (i > 1 ? "\n" : "") lines[i]
            }
            if (found) print entry
        }'
}

own_apt_get() { apt-get -c "$work/apt/apt.conf" "$@"; }

# offered: the release that the private apt would fetch.
offered() {
    own_apt_get source --print-uris erlang 2>>"$log" | sed -nE 's/.* erlang_([0-9]+:)?([0-9]+)[.+~-].*\.dsc .*/\2/p' | head -n 1
}

# choose_source: leaves a private apt that fetches the release, and sets suite.
choose_source() {
    local s
    phase 'prepare the list of sources' private_apt
    phase 'fetch the list of sources' own_apt_get update
    [ -n "$release" ] && [ "$(offered)" != "$release" ] || return 0
    for s in "${suites[@]}"; do
        [ "$s" != "$(own_suite)" ] || continue
        phase "prepare the list of sources of $s" private_apt "$s"
        phase "fetch the list of sources of $s" own_apt_get update
        if [ "$(offered)" = "$release" ]; then
            suite=$s
            return 0
        fi
    done
    fail "no source of Erlang/OTP $release: neither the system's own suite has it nor ${suites[*]}"
}

unpack_source() { cd "$work" && { own_apt_get source erlang || unpack_upstream; }; }

# unpack_upstream: a mirror may lack files of the newest revision that it lists. The archive
# of upstream's source is the same for all revisions. Debian has removed two scripts of HTML
# pages from it, which the installation copies.
unpack_upstream() {
    own_apt_get --download-only --tar-only source erlang || return 1
    mkdir erlang-upstream
    tar -xf erlang_*.orig.tar.* -C erlang-upstream --strip-components=1
    touch erlang-upstream/lib/common_test/priv/{jquery-latest.js,jquery.tablesorter.min.js}
}

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
    [[ $release =~ ^[0-9]*$ ]] || fail "OTP=$release: not the number of a release, such as 27"
    built && return
    command -v apt-get >/dev/null ||
        fail "needs Debian or a descendant; set BEAMSCOPE_OTP to a VM configured --with-dynamic-trace=systemtap"

    mkdir -p "$cache"
    exec 9>"$cache/$build.lock"
    if ! flock -n 9; then
        say "another build is under way, waiting for it"
        flock 9
    fi
    built && return # the other one was successful

    trap interrupted INT TERM HUP
    rm -rf "$cache/$build".?????? || true # of builds that were killed
    work=$(mktemp -d "$cache/$build.XXXXXX")
    : >"$log"

    install_packages
    choose_source
    phase 'fetch the source' unpack_source

    ERL_TOP=$(printf '%s\n' "$work"/erlang-*/OTP_VERSION)
    ERL_TOP=${ERL_TOP%/OTP_VERSION}
    [ -d "$ERL_TOP" ] || fail "no source tree in $work"
    export ERL_TOP
    version=$(<"$ERL_TOP/OTP_VERSION")
    prefix=$cache/otp-$version
    say "         Erlang/OTP $version"
    [ ! -d "$work/erlang-upstream" ] ||
        say "         without Debian's patches: the mirror lacks those of the newest revision"

    phase configure configure_otp
    phase compile compile_otp
    phase install install_otp

    ERL_ROOTDIR=$work/root$prefix/lib/erlang has_probes "$work/root$prefix/bin/erl" ||
        fail "the VM was built but has no probes; see $log"
    [ -z "$suite" ] || printf '%s\n' "$suite" >"$work/root$prefix/suite"
    rm -rf "$prefix" # a folder without bin/erl; cannot be ours
    mv "$work/root$prefix" "$prefix"
    rm -rf "$work"
    say "$(elapsed)  done"
    built
}

main "$@"
