# shellcheck shell=bash
# An apt of one's own, for packages of other suites and architectures of Debian. The
# system's lists and packages stay as they are. To be sourced.

# shellcheck disable=SC2094 # the files differ, their names do not
# private_apt DIR SUITE ARCHITECTURE [TYPE]: makes it in a folder. Its sources are the
# system's own, with the suite replaced; TYPE is deb or deb-src.
private_apt() {
	local dir=$1 suite=$2 arch=$3 type=${4:-deb} own list parts f
	own=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
	rm -rf "$dir"
	mkdir -p "$dir/sources.d" "$dir/lists/partial" "$dir/cache/archives/partial"
	eval "$(apt-config shell list Dir::Etc::sourcelist/f parts Dir::Etc::sourceparts/d)"
	for f in "$list" "$parts"/*.list; do
		[ -f "$f" ] || continue
		sed -nE "s/^[[:space:]]*deb([[:space:]].*[[:space:]])$own([[:space:]].*)$/$type\\1$suite\\2/p" "$f" \
			>"$dir/sources.d/$(basename "$f")"
	done
	for f in "$parts"/*.sources; do
		[ -f "$f" ] || continue
		replace_suite "$own" "$suite" "$type" <"$f" >"$dir/sources.d/$(basename "$f")"
	done
	cat >"$dir/apt.conf" <<-CONF
		#clear APT::Update::Pre-Invoke;
		#clear APT::Update::Post-Invoke;
		#clear APT::Update::Post-Invoke-Success;
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$dir/sources.d";
		Dir::State::lists "$dir/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$dir/cache";
		APT::Sandbox::User "root";
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; };
		Acquire::Languages "none";
		Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
	CONF
	apt-get -c "$dir/apt.conf" update -qq >&2
}

# replace_suite OWN OTHER TYPE: prints the entries in deb822 form on stdin that have the suite OWN,
# with only OTHER instead.
replace_suite() {
	awk -v RS= -v ORS='\n\n' -v own="$1" -v other="$2" -v type="$3" '
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
				if (tolower(lines[i]) ~ /^types:/) lines[i] = "Types: " type
				entry = entry (i > 1 ? "\n" : "") lines[i]
			}
			if (found) print entry
		}'
}

# fetch_package DIR PACKAGE[=VERSION]: downloads a package and unpacks it into DIR/root.
fetch_package() {
	local dir=$1 package=${2%%=*}
	mkdir -p "$dir/root"
	(cd "$dir" && apt-get -c apt.conf download -qq "$2" >&2)
	dpkg-deb -x "$dir/$package"_*.deb "$dir/root"
	rm "$dir/$package"_*.deb
}
