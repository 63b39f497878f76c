%% The layout of a ring, in 64-bit words counted from 1 as in atomics. The collector has the same
%% layout in internal/sources/ring/layout.go. All values are below 2^59, so none of them is a bignum here.

-define(MAGIC_1, 16#62656D73636F70).   % "bemscop"
-define(MAGIC_2, 16#72696E672D3035).   % "ring-05"
-define(RING_VERSION, 5).

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
-define(W_PROBES, 13).                 % how programs in the kernel see explained spans:
-define(WITH_PROBES, 1).               % they fire the VM's probes
-define(WITH_CALLS, 2).                % they call a function of the VM
-define(W_EXTENSIONS, 14).             % where the table of extensions begins
-define(W_READY, 16).                  % 1, written last
-define(W_TEXT_COUNT, 49).
-define(W_HEADS, 65).                  % one for each ring, HEAD_STRIDE words apart
-define(HEAD_STRIDE, 16).              % so that no two schedulers share a cache line
-define(W_HEAD(R), (?W_HEADS + (R) * ?HEAD_STRIDE)).
-define(W_CONTROL(R), (?W_HEAD(R) + 1)). % of each ring, written by collectors

%% The number of a scheduler's ring, from 0 on.
-define(RING_OF(Scheduler, Rings), (if Scheduler =< Rings -> Scheduler - 1; true -> (Scheduler - 1) rem Rings end)).

-define(MAX_RINGS, 255).
-define(NO_RING, 255).                 % in a parent: there is none

%% A text: a word with ready:1 and length:8, then 7 bytes a word. The last word of each entry in the
%% table is a marker, above the position of this word, counted from 0. A collector reads a sample of
%% each MiB of the VM's memory. One sample has a marker, which leads to the beginning of the array.
-define(TEXT_WORDS, 39).
-define(MARKER, 16#62656D73).          % "bems"
-define(MARKER_SHIFT, 24).
-define(TEXT_READY, 256).

%% A record has two words: time and name; kind and span. In a start, the span is the parent; in an
%% end, it is the span that ends. Each word begins with the lap. If the kind says so, the slot has
%% an extension, a third word: the process of a start, or the class of a failure. Extensions are in
%% a separate table, with one word for each slot.
%%
%% Programs in the kernel also see explained spans. A collector with such programs must not count
%% them twice. So the start of an explained span has a kind of its own, and its end has an extension
%% with EXPLAINED_END.
-define(RECORD_WORDS, 2).
-define(KIND_EXPLAINED_START, 0).
-define(KIND_START, 1).
-define(KIND_SUCCESS, 2).
-define(KIND_FAILURE, 3).
-define(EXTENDED, 4).                  % added to the kind
-define(EXPLAINED_END, 16#1000).       % above the class of a failure
-define(LAP_MASK, 16#7F).
-define(LAP_SHIFT, 52).
-define(TEXT_SHIFT, 40).
-define(TIME_MASK, 16#FFFFFFFFFF).
-define(KIND_SHIFT, 49).
-define(SERIAL_SHIFT, 32).
-define(SERIAL_MASK, 16#FFFFF).

%% A span's Id: the class of its root, and the ring and the slot of its start.
-define(CLASS_SHIFT, 45).
-define(RING_SHIFT, 37).
-define(SLOT_MASK, 16#1FFFFFFFFF).
-define(CLASSES, 16).

%% The control word contains four things: the sample mask, with the classes of spans to record; the
%% explain mask, with the classes of spans that programs in the kernel see too; whether starts
%% have their process; and the end of the lease. All are 0 before the first collector. Each ring has
%% a control word beside its head, and a collector writes all of them. A span reads the word by
%% adding 0. atomics:get/2 takes three times as long, because it has a memory barrier. The addition
%% is quick because no other scheduler uses the word.
%%
%% The end of the lease is a number of units modulo 2^26, and the remaining lease is a difference
%% modulo 2^26. If no span reads a control word for 104 days, its lease seems to be valid again, for
%% LEASE_MAX units. Records written then are never read.
-define(SAMPLE_SHIFT, 43).
-define(EXPLAIN_SHIFT, 27).
-define(ALL_RECORDED, 16#FFFF0000).    % both masks, where all classes are recorded and none explained
-define(ALL_EXPLAINED, 16#7FFF8000000). % the explain mask where all classes are explained
-define(WITH_PROCESS, 16#4000000).
-define(LEASE_MASK, 16#3FFFFFF).
-define(LEASE_UNIT, 27).               % 2^27 ns, about 134 ms
-define(LEASE_MAX, 64).                % units that a lease is in the future at most

%% The initial lease of a ring in units, about 5 seconds. A collector that finds the ring by then
%% has all spans from the first one on.
-define(FIRST_LEASE, 40).

%% A program's data about its ring, in a persistent term.
-record(ring, {array :: atomics:atomics_ref(),
               birth :: integer(),
               rings :: 1..?MAX_RINGS,
               log :: 8..24,                 % of the slots of one ring
               size :: pos_integer(),        % of one ring, in slots
               mask :: pos_integer(),        % size - 1
               first :: pos_integer(),       % where the slots begin
               extensions :: pos_integer(),  % where their extensions begin
               probes :: boolean()}).        % the VM has probes besides
