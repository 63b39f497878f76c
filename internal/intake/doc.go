// Package intake is what sources have in common that take in text of others: they
// cut it into lines, count those that cannot be understood, tell people about it, and
// count instances.
package intake
