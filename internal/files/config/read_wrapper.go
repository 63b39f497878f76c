package config

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
)

func (r *reader) wrapper(v value) (Wrapper, error) {
	w := Wrapper{Listen: DefaultListen}
	given, err := readFields(r, v, wrapperFields(), &w)
	if err != nil {
		return Wrapper{}, err
	}
	if listen, ok := given["listen"]; ok {
		if w.Listen, err = r.address(listen, w.Remote); err != nil {
			return Wrapper{}, err
		}
	}
	if connect, ok := given["connect"]; ok {
		w.Connect, err = r.addresses(connect, w.Remote)
	}
	return w, err
}

func (r *reader) addresses(v value, remote bool) ([]string, error) {
	values, err := r.list(v)
	if err != nil {
		return nil, err
	}
	var addresses []string
	for _, v := range values {
		a, err := r.address(v, remote)
		if err != nil {
			return nil, err
		}
		if slices.Contains(addresses, a) {
			return nil, r.errorf(v, "%s is there already: remove one", shown(v.node))
		}
		addresses = append(addresses, a)
	}
	return addresses, nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)

// address reads host:port. Everyone who can connect is trusted, so addresses of other machines
// must be allowed explicitly.
func (r *reader) address(v value, remote bool) (string, error) {
	text, err := r.text(v)
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(text)
	ip, notIP := netip.ParseAddr(host)
	if err != nil || !validPort(port) || notIP != nil && !hostName.MatchString(host) {
		return "", r.errorf(v, "%s is not an address: write host:port, as in %s", shown(v.node), DefaultListen)
	}
	if !remote && host != "localhost" && !ip.Unmap().IsLoopback() {
		return "", r.errorf(v, "%s is open to other machines, and the protocol has neither encryption nor passwords: write remote: true beside it to allow this", shown(v.node))
	}
	return text, nil
}

func validPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}
