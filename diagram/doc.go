// Package diagram is the language of outcome diagrams: which outcomes cause which,
// and what the ΔQ of the whole follows from those of its parts.
//
//	# what a request does
//	front  = parse -> f:lookup(cache, backend -> decode);
//	render = p:kind[0.9, 0.1](page, error_page);
//	system = s:front -> a:both(log, s:render)
//
// A definition gives a name to a sequence of components, each caused by the one
// before. A component is
//
//	name                        an outcome
//	s:name                      the diagram defined under that name, before or after
//	a:name(c, …)                all to finish
//	f:name(c, …)                first to finish
//	p:name[0.9, 0.1](c, …)      probabilistic choice
//	t:name[20ms](c)             timeout: given up after 20 ms
//	r:name[3, 20ms](c)          retry: up to three attempts, each given up after 20 ms
//	o:name[3, 20ms](c)          overlapping retry: one more attempt every 20 ms
//
// A definition ends with a semicolon, the last one may do without. One called
// system has to be the last. Comments are // and # to the end of the line, and
// /* … */. It is the language of Nieri, "The ΔQ Oscilloscope" (UCLouvain, 2025),
// 4.3 and 5.3.2, with comments, timeouts and retries, outcomes called s, a, f and p, and
// probabilities such as .5 and 1e-3.
//
// [Parse] reads it and reports all errors with their places, [Format] writes it in
// its one form, [ASCII] and [SVG] draw it, and a [Program] evaluates it.
package diagram
