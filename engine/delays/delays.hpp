// Waits between two steps of a protocol, drawn at random, in builds for tests alone.
//
// Most orders in which ranks can see each other's steps last for nanoseconds, and so they hardly ever come about in
// tests. A build with -DPACELINE_DELAYS=ON stays at these places for a drawn time, and they do. The variable
// PACELINE_DELAYS holds the seed; without it nothing is delayed. A seed also draws which places are delayed often, as a
// job in which everything is slow is like one in which nothing is. In any other build a place is nothing.
#pragma once

#include <cstdint>

namespace paceline {

enum class Between : std::uint8_t {
  data_and_stamp,         // a record's bytes are in the ring; its stamp is not
  record_and_room,        // a record was read; its slots are not free yet
  message_and_bell,       // a message is in the ring; nobody has looked whether its reader sleeps
  taken_and_room_told,    // records were read; nobody has looked whether their writer waits for room
  hunger_and_bell,        // a writer has said that it waits for room, and has not rung
  awake_and_bell,         // a sleeper's mark was taken; its socket has not been written to
  offer_and_grant,        // an offer was read; its sink is known, and the grant is not written
  piece_and_room,         // a piece of a stream was read; its slot is not free yet
  parked_and_look,        // a rank has said that it sleeps, and has not looked around
  look_and_sleep,         // it has looked around, given up its lock, and does not sleep yet
  wake_and_lock,          // it is awake, and does not have its lock again
  cell_and_epoch,         // a cell is filled in; its epoch is not shown
  begun_and_look,         // the epoch is shown; nobody has looked whether it is whole
  data_and_standing,      // another rank's memory was read; nobody has looked whether it still stands
  ended_and_marks,        // a rank has ended its part in a segment; its cells do not say so yet
  done_and_departure,     // a rank has finished all epochs, and has not departed
  writing_and_claim,      // a rank says that it writes; it has not claimed a piece
  piece_and_finished,     // pieces are combined, and not counted
  staged_and_counter,     // a block is in the pipe; its counter does not say so
  address_and_read,       // another process's address is known; its memory is not read yet
  reservation_and_stamp,  // words of the board's log are reserved; they are not written
  mark_and_check,         // a rank's mark is on the board; it has not looked at the others'
  claim_and_verdict,      // a slot was claimed; its verdict is not in the log
  failure_and_word,       // a group has failed here; no peer has been told
  bytes_and_more_bytes,   // a part of what goes out was handed to a socket
};

#ifdef PACELINE_DELAYS
inline constexpr bool kDelays = true;
#else
inline constexpr bool kDelays = false;
#endif

namespace delays {
void stay(Between steps);
}

inline void delay(Between steps) {
  if constexpr (kDelays) delays::stay(steps);
}

}  // namespace paceline
