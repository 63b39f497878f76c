// Code generated from DQ.g4 by ANTLR 4.13.1. DO NOT EDIT.

package grammar

import (
	"fmt"
	"github.com/antlr4-go/antlr/v4"
	"sync"
	"unicode"
)

// Suppress unused import error
var _ = fmt.Printf
var _ = sync.Once{}
var _ = unicode.IsLetter

type DQLexer struct {
	*antlr.BaseLexer
	channelNames []string
	modeNames    []string
	// TODO: EOF string
}

var DQLexerLexerStaticData struct {
	once                   sync.Once
	serializedATN          []int32
	ChannelNames           []string
	ModeNames              []string
	LiteralNames           []string
	SymbolicNames          []string
	RuleNames              []string
	PredictionContextCache *antlr.PredictionContextCache
	atn                    *antlr.ATN
	decisionToDFA          []*antlr.DFA
}

func dqlexerLexerInit() {
	staticData := &DQLexerLexerStaticData
	staticData.ChannelNames = []string{
		"DEFAULT_TOKEN_CHANNEL", "HIDDEN",
	}
	staticData.ModeNames = []string{
		"DEFAULT_MODE",
	}
	staticData.LiteralNames = []string{
		"", "';'", "'='", "'->'", "':'", "'['", "','", "']'", "'('", "')'",
	}
	staticData.SymbolicNames = []string{
		"", "", "", "", "", "", "", "", "", "", "NUMBER", "IDENTIFIER", "COMMENT",
		"WS",
	}
	staticData.RuleNames = []string{
		"T__0", "T__1", "T__2", "T__3", "T__4", "T__5", "T__6", "T__7", "T__8",
		"NUMBER", "IDENTIFIER", "COMMENT", "WS", "DIGIT",
	}
	staticData.PredictionContextCache = antlr.NewPredictionContextCache()
	staticData.serializedATN = []int32{
		4, 0, 13, 128, 6, -1, 2, 0, 7, 0, 2, 1, 7, 1, 2, 2, 7, 2, 2, 3, 7, 3, 2,
		4, 7, 4, 2, 5, 7, 5, 2, 6, 7, 6, 2, 7, 7, 7, 2, 8, 7, 8, 2, 9, 7, 9, 2,
		10, 7, 10, 2, 11, 7, 11, 2, 12, 7, 12, 2, 13, 7, 13, 1, 0, 1, 0, 1, 1,
		1, 1, 1, 2, 1, 2, 1, 2, 1, 3, 1, 3, 1, 4, 1, 4, 1, 5, 1, 5, 1, 6, 1, 6,
		1, 7, 1, 7, 1, 8, 1, 8, 1, 9, 4, 9, 50, 8, 9, 11, 9, 12, 9, 51, 1, 9, 1,
		9, 5, 9, 56, 8, 9, 10, 9, 12, 9, 59, 9, 9, 3, 9, 61, 8, 9, 1, 9, 1, 9,
		4, 9, 65, 8, 9, 11, 9, 12, 9, 66, 3, 9, 69, 8, 9, 1, 9, 1, 9, 3, 9, 73,
		8, 9, 1, 9, 4, 9, 76, 8, 9, 11, 9, 12, 9, 77, 3, 9, 80, 8, 9, 1, 10, 1,
		10, 5, 10, 84, 8, 10, 10, 10, 12, 10, 87, 9, 10, 1, 11, 1, 11, 1, 11, 1,
		11, 5, 11, 93, 8, 11, 10, 11, 12, 11, 96, 9, 11, 1, 11, 1, 11, 5, 11, 100,
		8, 11, 10, 11, 12, 11, 103, 9, 11, 1, 11, 1, 11, 1, 11, 1, 11, 5, 11, 109,
		8, 11, 10, 11, 12, 11, 112, 9, 11, 1, 11, 1, 11, 3, 11, 116, 8, 11, 1,
		11, 1, 11, 1, 12, 4, 12, 121, 8, 12, 11, 12, 12, 12, 122, 1, 12, 1, 12,
		1, 13, 1, 13, 1, 110, 0, 14, 1, 1, 3, 2, 5, 3, 7, 4, 9, 5, 11, 6, 13, 7,
		15, 8, 17, 9, 19, 10, 21, 11, 23, 12, 25, 13, 27, 0, 1, 0, 7, 2, 0, 69,
		69, 101, 101, 2, 0, 43, 43, 45, 45, 3, 0, 65, 90, 95, 95, 97, 122, 4, 0,
		48, 57, 65, 90, 95, 95, 97, 122, 2, 0, 10, 10, 13, 13, 4, 0, 9, 10, 13,
		13, 32, 32, 65279, 65279, 1, 0, 48, 57, 141, 0, 1, 1, 0, 0, 0, 0, 3, 1,
		0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 11, 1,
		0, 0, 0, 0, 13, 1, 0, 0, 0, 0, 15, 1, 0, 0, 0, 0, 17, 1, 0, 0, 0, 0, 19,
		1, 0, 0, 0, 0, 21, 1, 0, 0, 0, 0, 23, 1, 0, 0, 0, 0, 25, 1, 0, 0, 0, 1,
		29, 1, 0, 0, 0, 3, 31, 1, 0, 0, 0, 5, 33, 1, 0, 0, 0, 7, 36, 1, 0, 0, 0,
		9, 38, 1, 0, 0, 0, 11, 40, 1, 0, 0, 0, 13, 42, 1, 0, 0, 0, 15, 44, 1, 0,
		0, 0, 17, 46, 1, 0, 0, 0, 19, 68, 1, 0, 0, 0, 21, 81, 1, 0, 0, 0, 23, 115,
		1, 0, 0, 0, 25, 120, 1, 0, 0, 0, 27, 126, 1, 0, 0, 0, 29, 30, 5, 59, 0,
		0, 30, 2, 1, 0, 0, 0, 31, 32, 5, 61, 0, 0, 32, 4, 1, 0, 0, 0, 33, 34, 5,
		45, 0, 0, 34, 35, 5, 62, 0, 0, 35, 6, 1, 0, 0, 0, 36, 37, 5, 58, 0, 0,
		37, 8, 1, 0, 0, 0, 38, 39, 5, 91, 0, 0, 39, 10, 1, 0, 0, 0, 40, 41, 5,
		44, 0, 0, 41, 12, 1, 0, 0, 0, 42, 43, 5, 93, 0, 0, 43, 14, 1, 0, 0, 0,
		44, 45, 5, 40, 0, 0, 45, 16, 1, 0, 0, 0, 46, 47, 5, 41, 0, 0, 47, 18, 1,
		0, 0, 0, 48, 50, 3, 27, 13, 0, 49, 48, 1, 0, 0, 0, 50, 51, 1, 0, 0, 0,
		51, 49, 1, 0, 0, 0, 51, 52, 1, 0, 0, 0, 52, 60, 1, 0, 0, 0, 53, 57, 5,
		46, 0, 0, 54, 56, 3, 27, 13, 0, 55, 54, 1, 0, 0, 0, 56, 59, 1, 0, 0, 0,
		57, 55, 1, 0, 0, 0, 57, 58, 1, 0, 0, 0, 58, 61, 1, 0, 0, 0, 59, 57, 1,
		0, 0, 0, 60, 53, 1, 0, 0, 0, 60, 61, 1, 0, 0, 0, 61, 69, 1, 0, 0, 0, 62,
		64, 5, 46, 0, 0, 63, 65, 3, 27, 13, 0, 64, 63, 1, 0, 0, 0, 65, 66, 1, 0,
		0, 0, 66, 64, 1, 0, 0, 0, 66, 67, 1, 0, 0, 0, 67, 69, 1, 0, 0, 0, 68, 49,
		1, 0, 0, 0, 68, 62, 1, 0, 0, 0, 69, 79, 1, 0, 0, 0, 70, 72, 7, 0, 0, 0,
		71, 73, 7, 1, 0, 0, 72, 71, 1, 0, 0, 0, 72, 73, 1, 0, 0, 0, 73, 75, 1,
		0, 0, 0, 74, 76, 3, 27, 13, 0, 75, 74, 1, 0, 0, 0, 76, 77, 1, 0, 0, 0,
		77, 75, 1, 0, 0, 0, 77, 78, 1, 0, 0, 0, 78, 80, 1, 0, 0, 0, 79, 70, 1,
		0, 0, 0, 79, 80, 1, 0, 0, 0, 80, 20, 1, 0, 0, 0, 81, 85, 7, 2, 0, 0, 82,
		84, 7, 3, 0, 0, 83, 82, 1, 0, 0, 0, 84, 87, 1, 0, 0, 0, 85, 83, 1, 0, 0,
		0, 85, 86, 1, 0, 0, 0, 86, 22, 1, 0, 0, 0, 87, 85, 1, 0, 0, 0, 88, 89,
		5, 47, 0, 0, 89, 90, 5, 47, 0, 0, 90, 94, 1, 0, 0, 0, 91, 93, 8, 4, 0,
		0, 92, 91, 1, 0, 0, 0, 93, 96, 1, 0, 0, 0, 94, 92, 1, 0, 0, 0, 94, 95,
		1, 0, 0, 0, 95, 116, 1, 0, 0, 0, 96, 94, 1, 0, 0, 0, 97, 101, 5, 35, 0,
		0, 98, 100, 8, 4, 0, 0, 99, 98, 1, 0, 0, 0, 100, 103, 1, 0, 0, 0, 101,
		99, 1, 0, 0, 0, 101, 102, 1, 0, 0, 0, 102, 116, 1, 0, 0, 0, 103, 101, 1,
		0, 0, 0, 104, 105, 5, 47, 0, 0, 105, 106, 5, 42, 0, 0, 106, 110, 1, 0,
		0, 0, 107, 109, 9, 0, 0, 0, 108, 107, 1, 0, 0, 0, 109, 112, 1, 0, 0, 0,
		110, 111, 1, 0, 0, 0, 110, 108, 1, 0, 0, 0, 111, 113, 1, 0, 0, 0, 112,
		110, 1, 0, 0, 0, 113, 114, 5, 42, 0, 0, 114, 116, 5, 47, 0, 0, 115, 88,
		1, 0, 0, 0, 115, 97, 1, 0, 0, 0, 115, 104, 1, 0, 0, 0, 116, 117, 1, 0,
		0, 0, 117, 118, 6, 11, 0, 0, 118, 24, 1, 0, 0, 0, 119, 121, 7, 5, 0, 0,
		120, 119, 1, 0, 0, 0, 121, 122, 1, 0, 0, 0, 122, 120, 1, 0, 0, 0, 122,
		123, 1, 0, 0, 0, 123, 124, 1, 0, 0, 0, 124, 125, 6, 12, 1, 0, 125, 26,
		1, 0, 0, 0, 126, 127, 7, 6, 0, 0, 127, 28, 1, 0, 0, 0, 15, 0, 51, 57, 60,
		66, 68, 72, 77, 79, 85, 94, 101, 110, 115, 122, 2, 0, 1, 0, 6, 0, 0,
	}
	deserializer := antlr.NewATNDeserializer(nil)
	staticData.atn = deserializer.Deserialize(staticData.serializedATN)
	atn := staticData.atn
	staticData.decisionToDFA = make([]*antlr.DFA, len(atn.DecisionToState))
	decisionToDFA := staticData.decisionToDFA
	for index, state := range atn.DecisionToState {
		decisionToDFA[index] = antlr.NewDFA(state, index)
	}
}

// DQLexerInit initializes any static state used to implement DQLexer. By default the
// static state used to implement the lexer is lazily initialized during the first call to
// NewDQLexer(). You can call this function if you wish to initialize the static state ahead
// of time.
func DQLexerInit() {
	staticData := &DQLexerLexerStaticData
	staticData.once.Do(dqlexerLexerInit)
}

// NewDQLexer produces a new lexer instance for the optional input antlr.CharStream.
func NewDQLexer(input antlr.CharStream) *DQLexer {
	DQLexerInit()
	l := new(DQLexer)
	l.BaseLexer = antlr.NewBaseLexer(input)
	staticData := &DQLexerLexerStaticData
	l.Interpreter = antlr.NewLexerATNSimulator(l, staticData.atn, staticData.decisionToDFA, staticData.PredictionContextCache)
	l.channelNames = staticData.ChannelNames
	l.modeNames = staticData.ModeNames
	l.RuleNames = staticData.RuleNames
	l.LiteralNames = staticData.LiteralNames
	l.SymbolicNames = staticData.SymbolicNames
	l.GrammarFileName = "DQ.g4"
	// TODO: l.EOF = antlr.TokenEOF

	return l
}

// DQLexer tokens.
const (
	DQLexerT__0       = 1
	DQLexerT__1       = 2
	DQLexerT__2       = 3
	DQLexerT__3       = 4
	DQLexerT__4       = 5
	DQLexerT__5       = 6
	DQLexerT__6       = 7
	DQLexerT__7       = 8
	DQLexerT__8       = 9
	DQLexerNUMBER     = 10
	DQLexerIDENTIFIER = 11
	DQLexerCOMMENT    = 12
	DQLexerWS         = 13
)
