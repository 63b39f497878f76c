// The outcome-diagram language. It reads every file of the thesis (5.3.2), whose
// keywords s, f, a and p are plain identifiers here: they mean something only
// before a colon, so outcomes may have these names.
//
// Generated code is committed; see doc.go for how to make it again.
grammar DQ;

// The parser is called for one definition at a time; this is the whole language.
file : (definition (';' definition)* ';'?)? EOF ;

definition : IDENTIFIER '=' chain ;

chain : component ('->' component)* ;

component
    : IDENTIFIER ':' IDENTIFIER weights? arguments?   # Prefixed
    | IDENTIFIER                                      # Outcome
    ;

weights : '[' NUMBER (',' NUMBER)* ']' ;

arguments : '(' chain (',' chain)* ')' ;

NUMBER : (DIGIT+ ('.' DIGIT*)? | '.' DIGIT+) ([eE] [+-]? DIGIT+)? ;
IDENTIFIER : [\p{L}_] [\p{L}\p{M}\p{Nd}_]* ;
COMMENT : ('//' ~[\r\n]* | '#' ~[\r\n]* | '/*' .*? '*/') -> channel(HIDDEN) ;
WS : [ \t\r\n\uFEFF]+ -> skip ;

fragment DIGIT : [0-9] ;
