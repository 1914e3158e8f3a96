/* A model of the protocol in engine/segment/segment.hpp for the checker Spin: ranks go through EPOCHS epochs of every
 * kind.
 *
 * Spin checks that the data a rank reads were written for this epoch and are whole, and that no rank sleeps for ever.
 * Stores to cells and to the parked flag pass through a store buffer, as on real machines. They become visible some time
 * later, at the latest at a fence. Other memory is published by the cell's store (release) and read after its load
 * (acquire).
 *
 * A rank has SMALL small slots and two large ones. Large slots serve epochs in which all ranks need all, and exposed
 * ones; small slots serve the others, in which a rank that needs no other rank runs ahead. Before a rank begins an epoch
 * it checks that the cells of the epochs before agree.
 *
 * In an epoch that is `exposed` the others read a rank's data from its own buffer. The rank may change the buffer once
 * all ranks that need it have stored the epoch as taken (SharedExchange).
 *
 * Defining NO_FENCE, NO_ENTRY, FEW_CELLS, WAKE_NEVER or NO_TAKING plants an error that must be found. UNROOTED restricts
 * the model to epochs in which all ranks need all; ONE_ROOT to these and to epochs of root 0; UNEXPOSED to epochs in
 * which slots are read.
 */
#ifndef RANKS
#define RANKS 3
#endif
#ifndef EPOCHS
#define EPOCHS 3
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
#define CELL(rank, epoch) ((rank) * CELLS + (epoch) % CELLS)
#define SLOTS(epoch) (kind[epoch] == NOBODY || exposed[epoch] -> 2 : SMALL)
/* The large slots come after the small ones. */
#define SLOT(rank, epoch) \
  ((rank) * (SMALL + 2) + (SLOTS(epoch) == 2 -> SMALL + (epoch) % 2 : (epoch) % SMALL))

byte cell[RANKS * CELLS]; /* the epoch that a cell was last stored for */
byte what[RANKS * CELLS]; /* the epoch that its other contents were written for; 255 while they are being written */
byte slot[RANKS * (SMALL + 2)]; /* the epoch that a slot was written for; 255 while it is being written */
byte buffer[RANKS];    /* the epoch that a rank's own buffer holds data for; 255 once the user changes it */
byte taken[RANKS];     /* the last exposed epoch in which a rank has read all that it needed */
bit exposed[EPOCHS + 1];
bit parked[RANKS];
bit doorbell[RANKS];
byte kind[EPOCHS + 1];   /* of each epoch: its root, or NOBODY where all need all */
bit to_root[EPOCHS + 1]; /* rooted: whether the root takes (reduce), or all others do (broadcast) */

/* Store buffers of one entry each. */
byte cell_pending[RANKS]; /* the epoch, 0 if there is none */
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

#define NEEDS(me, other, epoch) \
  (kind[epoch] == NOBODY || (to_root[epoch] && kind[epoch] == (me)) || (!to_root[epoch] && kind[epoch] == (other)))

/* Sets `blocked` to a rank that has not begun `epoch`, among those needed (`only_needed`) or all; to NOBODY if there is
   no such rank. */
inline look(me, epoch, only_needed) {
  blocked = NOBODY;
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other != me && (!only_needed || NEEDS(me, other, epoch)) &&
        cell[CELL(other, epoch)] < epoch->blocked = other;
  break ::else fi;
  other++ od
}

/* The same for a rank that needs what `me` has exposed and has not taken it. */
inline look_taken(me, epoch) {
  blocked = NOBODY;
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other != me && NEEDS(other, me, epoch) && taken[other] < epoch->blocked = other;
  break ::else fi;
  other++ od
}

#define BEGUN 0        /* by all */
#define BEGUN_NEEDED 1 /* by all whom this rank needs */
#define TAKEN 2

inline look_for(me, epoch, which) {
  if
    ::which == TAKEN->look_taken(me, epoch)::else->look(me, epoch, which)
  fi
}

inline wait_for(me, epoch, which) {
  do ::look_for(me, epoch, which);
  if
    ::blocked == NOBODY->break ::else fi;
  parked_pending[me] = 1;
  fence(me);
  look_for(me, epoch, which);
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
  byte epoch = 1, agreed = 0, other, blocked;
  do
    ::epoch > EPOCHS->break ::else->
#ifndef NO_ENTRY
             do ::agreed + SLOTS(epoch) > epoch -> break ::else -> wait_for(me, agreed + 1, BEGUN);
  agreed++;
  other = 0;
  do
    ::other == RANKS->break ::else->assert(what[CELL(other, agreed)] == agreed);
  other++ od od;
#endif
  what[CELL(me, epoch)] = 255;
  slot[SLOT(me, epoch)] = 255;
  slot[SLOT(me, epoch)] = epoch;
  what[CELL(me, epoch)] = epoch;
  buffer[me] = epoch;
  cell_pending[me] = epoch;
  fence(me);
  look(me, epoch, 0);
  if
    ::blocked == NOBODY || kind[epoch] == me->wake(me)::else fi;
  wait_for(me, epoch, BEGUN_NEEDED);
  other = 0;
  do
    ::other == RANKS->break ::else->if ::other != me&& NEEDS(me, other, epoch)->if
      ::exposed[epoch]->assert(buffer[other] == epoch)::else->assert(slot[SLOT(other, epoch)] == epoch)
    fi ::else fi;
  other++ od;
  if
    ::exposed[epoch]->taken[me] = epoch;
  fence(me);
  wake(me);
#ifndef NO_TAKING
  wait_for(me, epoch, TAKEN)
#endif
      ::else fi;
  buffer[me] = 255;
  epoch++ od;
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
  byte epoch = 1;
  atomic {
    do
      ::epoch > EPOCHS->break ::else->if ::kind[epoch] = NOBODY
#ifndef UNROOTED
          ::kind[epoch] = 0;
    to_root[epoch] = 0 ::kind[epoch] = 0;
    to_root[epoch] = 1
#ifndef ONE_ROOT
        ::kind[epoch] = RANKS - 1;
    to_root[epoch] = 0
#endif
#endif
        fi;
#ifndef UNEXPOSED
    if ::exposed[epoch] = 0 ::exposed[epoch] = 1 fi;
#endif
    epoch++ od;
    run Memory();
    run Rank(0);
    run Rank(1);
#if RANKS > 2
    run Rank(2)
#endif
  }
}
