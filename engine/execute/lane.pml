/* The protocol of engine/execute/lane.hpp, for the model checker Spin: ranks take TURNS turns of every kind.
 *
 * Checked: what a rank reads was written for this turn and is whole; nobody sleeps for ever. Stores to cells and to the
 * parked flag pass through a store buffer, as on real machines, and become visible some time later, at the latest at a
 * fence; other memory is published by the cell's store (release) and read after its load (acquire).
 *
 * Defining NO_FENCE, NO_ENTRY or WAKE_NEVER plants an error that must be found; UNROOTED keeps to turns in which
 * everybody needs everybody.
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef TURNS
#define TURNS 3
#endif
#define NOBODY 255
#define CELL(rank, turn) ((rank) * 2 + (turn) % 2)

byte cell[RANKS * 2]; /* the turn that a cell was last stored for */
byte slot[RANKS * 2]; /* the turn that a slot was written for; 255 while it is being written */
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

inline wait_for(me, turn, only_needed) {
  do ::look(me, turn, only_needed);
  if
    ::blocked == NOBODY->break ::else fi;
  parked_pending[me] = 1;
  fence(me);
  look(me, turn, only_needed);
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
  byte turn = 1, other, blocked;
  do
    ::turn > TURNS->break ::else->
#ifndef NO_ENTRY
             if ::turn > 1->wait_for(me, turn - 1, 0)::else fi;
#endif
  slot[CELL(me, turn)] = 255;
  slot[CELL(me, turn)] = turn;
  cell_pending[me] = turn;
  fence(me);
  look(me, turn, 0);
  if
    ::blocked == NOBODY || kind[turn] == me->wake(me)::else fi;
  wait_for(me, turn, 1);
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other !=
        me&& NEEDS(me, other, turn)->assert(slot[CELL(other, turn)] == turn)::else fi;
  other++ od;
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
    to_root[turn] = 1 ::kind[turn] = RANKS - 1;
    to_root[turn] = 0
#endif
        fi;
    turn++ od;
    run Memory();
    run Rank(0);
    run Rank(1);
#if RANKS > 2
    run Rank(2)
#endif
  }
}
