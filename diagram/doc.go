// Package diagram is the language of outcome diagrams: it describes how outcomes cause each other,
// and calculates the ΔQ of the whole from those of its parts.
//
//	# what a request does
//	front  = parse -> f:lookup(cache, backend -> decode);
//	render = p:kind[0.9, 0.1](page, error_page);
//	system = s:front -> a:both(log, s:render)
//
// A definition gives a name to a sequence of components. Each component causes the next one. A
// component is
//
//	name                        an outcome
//	s:name                      the diagram defined under that name, before or after
//	a:name(c, …)                all to finish
//	f:name(c, …)                first to finish
//	p:name[0.9, 0.1](c, …)      probabilistic choice
//	t:name[20ms](c)             timeout: gives up after 20 ms
//	r:name[3, 20ms](c)          retry: up to three attempts, each gives up after 20 ms
//	o:name[3, 20ms](c)          overlapping retry: one more attempt every 20 ms
//
// A definition ends with a semicolon, which the last one does not need. A definition called system
// must be the last one. Comments are // and # to the end of the line, and /* … */. The language is
// that of Nieri, "The ΔQ Oscilloscope" (UCLouvain, 2025), 4.3 and 5.3.2, with comments, timeouts
// and retries, outcomes called s, a, f and p, and probabilities such as .5 and 1e-3.
//
// [Parse] reads a diagram and reports all errors with their places, [Format] writes it in its
// canonical form, [ASCII] and [SVG] draw it, and a [Program] evaluates it.
package diagram
