/* The protocol of engine/segment/segment.hpp, for the model checker Spin: ranks take TURNS turns of every kind.
 *
 * Checked: what a rank reads was written for this turn and is whole; nobody sleeps for ever. Stores to cells and to the
 * parked flag pass through a store buffer, as on real machines, and become visible some time later, at the latest at a
 * fence; other memory is published by the cell's store (release) and read after its load (acquire).
 *
 * A rank has SMALL small slots and two large ones. In turns in which all need all, and in those that are exposed, large
 * ones are in use, else small ones: who needs nobody then runs ahead. Before a rank begins a turn it looks at the cells
 * of those before, whether all agree.
 *
 * In a turn that is `exposed` what a rank has is read from its own buffer, which it may change once all who need it have
 * stored the turn as taken (SharedExchange).
 *
 * Defining NO_FENCE, NO_ENTRY, FEW_CELLS, WAKE_NEVER or NO_TAKING plants an error that must be found; UNROOTED keeps to
 * turns in which everybody needs everybody, ONE_ROOT to these and to those of root 0, UNEXPOSED to turns in which slots
 * are read.
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef TURNS
#define TURNS 3
#endif
#define NOBODY 255
#ifndef SMALL
#define SMALL 3
#endif
#ifdef FEW_CELLS
#define CELLS SMALL
#else
#define CELLS (2 * SMALL - 2) /* the least that will do; the code has two more, a power of two */
#endif
#define CELL(rank, turn) ((rank) * CELLS + (turn) % CELLS)
#define SLOTS(turn) (kind[turn] == NOBODY || exposed[turn] -> 2 : SMALL)
/* The large slots come after the small ones. */
#define SLOT(rank, turn) \
  ((rank) * (SMALL + 2) + (SLOTS(turn) == 2 -> SMALL + (turn) % 2 : (turn) % SMALL))

byte cell[RANKS * CELLS]; /* the turn that a cell was last stored for */
byte what[RANKS * CELLS]; /* the turn that its other contents were written for; 255 while they are being written */
byte slot[RANKS * (SMALL + 2)]; /* the turn that a slot was written for; 255 while it is being written */
byte buffer[RANKS];    /* the turn that a rank's own buffer holds data for; 255 once the user changes it */
byte taken[RANKS];     /* the last exposed turn in which a rank has read all that it needed */
bit exposed[TURNS + 1];
bit parked[RANKS];
bit doorbell[RANKS];
byte kind[TURNS + 1];   /* of each turn: its root, or NOBODY where all need all */
bit to_root[TURNS + 1]; /* rooted: whether the root takes (reduce), or all others do (broadcast) */

/* Store buffers of one entry each. */
byte cell_pending[RANKS]; /* the turn, 0 if there is none */
bit parked_pending[RANKS];

inline publish(me) {
  atomic {
    if
      ::cell_pending[me] != 0->cell[CELL(me, cell_pending[me])] = cell_pending[me];
    cell_pending[me] = 0 ::else fi;
    if
      ::parked_pending[me]->parked[me] = 1;
    parked_pending[me] = 0 ::else fi
  }
}

inline fence(me){
#ifndef NO_FENCE
    publish(me)
#else
    skip
#endif
}

#define NEEDS(me, other, turn) \
  (kind[turn] == NOBODY || (to_root[turn] && kind[turn] == (me)) || (!to_root[turn] && kind[turn] == (other)))

/* Sets `blocked` to a rank that has not begun `turn`, among those needed (`only_needed`) or all; NOBODY if there is
   none. */
inline look(me, turn, only_needed) {
  blocked = NOBODY;
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other != me && (!only_needed || NEEDS(me, other, turn)) &&
        cell[CELL(other, turn)] < turn->blocked = other;
  break ::else fi;
  other++ od
}

/* The same for a rank that needs what `me` has exposed and has not taken it. */
inline look_taken(me, turn) {
  blocked = NOBODY;
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other != me && NEEDS(other, me, turn) && taken[other] < turn->blocked = other;
  break ::else fi;
  other++ od
}

#define BEGUN 0        /* by all */
#define BEGUN_NEEDED 1 /* by all whom this rank needs */
#define TAKEN 2

inline look_for(me, turn, which) {
  if
    ::which == TAKEN->look_taken(me, turn)::else->look(me, turn, which)
  fi
}

inline wait_for(me, turn, which) {
  do ::look_for(me, turn, which);
  if
    ::blocked == NOBODY->break ::else fi;
  parked_pending[me] = 1;
  fence(me);
  look_for(me, turn, which);
  if
    ::blocked == NOBODY->atomic {
      parked_pending[me] = 0;
      parked[me] = 0
    };
  break ::else fi;
  doorbell[me]; /* sleeps until somebody rings */
  atomic {
    doorbell[me] = 0;
    parked_pending[me] = 0;
    parked[me] = 0
  }
  od
}

inline wake(me) {
  other = 0;
  do
    ::other == RANKS->break ::else->
#ifndef WAKE_NEVER
               atomic {
      if
        ::other != me&& parked[other]->parked[other] = 0;
      doorbell[other] = 1 ::else fi
    }
#endif
  other++ od
}

proctype Rank(byte me) {
  byte turn = 1, agreed = 0, other, blocked;
  do
    ::turn > TURNS->break ::else->
#ifndef NO_ENTRY
             do ::agreed + SLOTS(turn) > turn -> break ::else -> wait_for(me, agreed + 1, BEGUN);
  agreed++;
  other = 0;
  do
    ::other == RANKS->break ::else->assert(what[CELL(other, agreed)] == agreed);
  other++ od od;
#endif
  what[CELL(me, turn)] = 255;
  slot[SLOT(me, turn)] = 255;
  slot[SLOT(me, turn)] = turn;
  what[CELL(me, turn)] = turn;
  buffer[me] = turn;
  cell_pending[me] = turn;
  fence(me);
  look(me, turn, 0);
  if
    ::blocked == NOBODY || kind[turn] == me->wake(me)::else fi;
  wait_for(me, turn, BEGUN_NEEDED);
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other != me&& NEEDS(me, other, turn)->if
      ::exposed[turn]->assert(buffer[other] == turn)::else->assert(slot[SLOT(other, turn)] == turn)
    fi ::else fi;
  other++ od;
  if
    ::exposed[turn]->taken[me] = turn;
  fence(me);
  wake(me);
#ifndef NO_TAKING
  wait_for(me, turn, TAKEN)
#endif
      ::else fi;
  buffer[me] = 255;
  turn++ od;
  publish(me)
}

/* The memory system: makes stores visible whenever it likes. */
proctype Memory(){
  end : do ::cell_pending[0] != 0 || parked_pending[0] -> publish(0)::cell_pending[1] != 0 ||
  parked_pending[1]->publish(1)
#if RANKS > 2
          ::cell_pending[2] != 0 ||
  parked_pending[2]->publish(2)
#endif
      od
}

init {
  byte turn = 1;
  atomic {
    do
      ::turn > TURNS->break ::else->if ::kind[turn] = NOBODY
#ifndef UNROOTED
          ::kind[turn] = 0;
    to_root[turn] = 0 ::kind[turn] = 0;
    to_root[turn] = 1
#ifndef ONE_ROOT
        ::kind[turn] = RANKS - 1;
    to_root[turn] = 0
#endif
#endif
        fi;
#ifndef UNEXPOSED
    if ::exposed[turn] = 0 ::exposed[turn] = 1 fi;
#endif
    turn++ od;
    run Memory();
    run Rank(0);
    run Rank(1);
#if RANKS > 2
    run Rank(2)
#endif
  }
}
