// Package grammar is the parser of the outcome-diagram language that ANTLR 4
// generates from DQ.g4. To make it again, with the jar of ANTLR 4.13.1 (the npm
// package antlr4ng-cli 2.0.0 holds one):
//
//	java -jar antlr4.jar -Dlanguage=Go -package grammar -no-listener -no-visitor DQ.g4
//	sed -i '/goto errorExit .. Trick/d' dq_parser.go # unreachable, which go vet minds
//	gofmt -w . && rm *.interp *.tokens
package grammar
