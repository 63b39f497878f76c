%% The layout of a ring, in 64-bit words counted from 1 as atomics are. The collector has
%% the same in internal/ring/layout.go. All values are below 2^59, so that none of them is
%% a big integer here.

-define(MAGIC_1, 16#62656D73636F70).   % "bemscop"
-define(MAGIC_2, 16#72696E672D3031).   % "ring-01"
-define(RING_VERSION, 1).

-define(W_MAGIC, 1).                   % and 2
-define(W_VERSION, 3).
-define(W_WORDS, 4).                   % in the whole array
-define(W_RINGS, 5).
-define(W_LOG_SLOTS, 6).               % of one ring
-define(W_TEXTS, 7).                   % where the table of texts begins
-define(W_MAX_TEXTS, 8).
-define(W_SLOTS, 9).                   % where the first ring's slots begin
-define(W_UNIT, 10).                   % of os:perf_counter() in a second
-define(W_OS_PID, 11).
-define(W_BIRTH, 12).                  % os:perf_counter() when the ring was made
-define(W_PROBES, 13).                 % 1: spans that are to be explained fire the VM's probes
-define(W_READY, 16).                  % 1, written last
-define(W_CONTROL, 33).                % written by collectors
-define(W_TEXT_COUNT, 49).
-define(W_HEADS, 65).                  % one for each ring, HEAD_STRIDE words apart
-define(HEAD_STRIDE, 16).              % so that no two schedulers share a cache line

-define(MAX_RINGS, 255).
-define(NO_RING, 255).                 % in a parent: there is none

%% A text: a word with ready:1 and length:8, then 7 bytes a word.
-define(TEXT_WORDS, 38).
-define(TEXT_READY, 256).

%% A record: time and text; kind and span; and of a start, the process. Each word begins
%% with the lap.
-define(RECORD_WORDS, 3).
-define(KIND_START, 1).
-define(KIND_SUCCESS, 2).
-define(KIND_FAILURE, 3).
-define(LAP_MASK, 16#7F).
-define(LAP_SHIFT, 52).
-define(TEXT_SHIFT, 40).
-define(TIME_MASK, 16#FFFFFFFFFF).
-define(KIND_SHIFT, 50).
-define(SERIAL_SHIFT, 32).
-define(SERIAL_MASK, 16#FFFFF).

%% A span's Id: the class of its root, and the ring and the slot of its start.
-define(CLASS_SHIFT, 46).
-define(RING_SHIFT, 38).
-define(SLOT_MASK, 16#3FFFFFFFFF).
-define(CLASSES, 16).

%% The control word: spans of which classes are recorded, which of those fire the VM's
%% probe instead, and until when: all three are 0 where no collector ever was.
-define(SAMPLE_SHIFT, 43).
-define(EXPLAIN_SHIFT, 27).
-define(LEASE_MASK, 16#7FFFFFF).
-define(LEASE_UNIT, 27).               % 2^27 ns, about 134 ms
-define(LEASE_MAX, 64).                % units that a lease is in the future at most
