// The outcome-diagram language. It reads every file of the thesis (5.3.2), whose
// keywords s, f, a and p are plain identifiers here, as are t, r and o: they mean
// something only before a colon, so outcomes may have these names.
//
// Generated code is committed; see doc.go for how to make it again.
grammar DQ;

// The parser is called for one definition at a time; this is the whole language.
file : (definition (';' definition)* ';'?)? EOF ;

definition : IDENTIFIER '=' chain ;

chain : component ('->' component)* ;

component
    : IDENTIFIER ':' IDENTIFIER parameters? arguments?   # Prefixed
    | IDENTIFIER                                         # Outcome
    ;

// Probabilities of a choice, the time of a timeout, attempts and time of a retry.
parameters : '[' parameter (',' parameter)* ']' ;

parameter
    : NUMBER     # Number
    | DURATION   # Duration
    ;

arguments : '(' chain (',' chain)* ')' ;

NUMBER : DECIMAL ([eE] [+-]? DIGIT+)? ;
DURATION : (DECIMAL ('ns' | 'us' | '\u00B5s' | '\u03BCs' | 'ms' | 's' | 'm' | 'h'))+ ;
IDENTIFIER : [\p{L}_] [\p{L}\p{M}\p{Nd}_]* ;
COMMENT : ('//' ~[\r\n]* | '#' ~[\r\n]* | '/*' .*? '*/') -> channel(HIDDEN) ;
WS : [ \t\r\n]+ -> skip ;

fragment DECIMAL : DIGIT+ ('.' DIGIT*)? | '.' DIGIT+ ;
fragment DIGIT : [0-9] ;
