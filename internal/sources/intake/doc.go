// Package intake is what sources that read text from others share: they cut it into
// lines, count and report lines that cannot be understood, and count instances.
package intake
