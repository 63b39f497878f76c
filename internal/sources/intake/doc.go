// Package intake contains the common parts of sources that read text from others: they cut it into
// lines, count and report lines that cannot be understood, and count instances.
package intake
