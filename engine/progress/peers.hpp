// The processes that this one has a link to. Their handles are numbers from 0, in the order in which they were added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "execute/operation.hpp"
#include "link/link.hpp"

namespace paceline {

struct Peer {
  std::unique_ptr<Link> link;
  std::string description;
  std::uint32_t interest = 0;  // epoll events that the engine listens for
  bool lost = false;           // nothing more is heard from it
  bool garbled = false;        // because of what it sent; it can still be told
  std::string why;             // it was lost; empty where it hung up
  bool left = false;           // it said goodbye
  Error before;                // the first error that it knew of when it left
  bool seen = false;
  Header last_seen;        // the last message of an operation
  std::string line;        // the line of its program that it last told us of, in printable ASCII, or empty
  Clock::time_point told;  // when it told us that
  // The last operation of this rank when it read, with none under way, what the peer had sent.
  std::uint64_t sent_ahead_of = ~std::uint64_t{0};

  // Notes the header of a message of an operation.
  void saw(const Header& header) {
    last_seen = header;
    seen = true;
  }
  // The operation that it was last heard of in, or empty.
  std::string last_operation() const {
    return seen ? describe(last_seen.fingerprint(), last_seen.sequence) : std::string();
  }
};

class Peers {
 public:
  int next_handle() const { return static_cast<int>(peers_.size()); }
  Peer& add(std::unique_ptr<Link> link, std::string description) {
    (link->name() == "shm" ? shm_links_ : tcp_links_).push_back(link.get());
    link->count_waiting_in(waiting_links_);
    Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
    peer.link = std::move(link);
    peer.description = std::move(description);
    return peer;
  }
  void clear() {
    shm_links_.clear();
    tcp_links_.clear();
    peers_.clear();
    waiting_links_ = 0;
  }

  // The handle of the peer that is called so; -1 if there is none.
  int find(std::string_view description) const {
    for (int handle = 0; handle < next_handle(); ++handle)
      if ((*this)[handle].description == description) return handle;
    return -1;
  }
  bool has(int handle) const { return handle >= 0 && handle < next_handle(); }
  Peer& operator[](int handle) { return *peers_[static_cast<std::size_t>(handle)]; }
  const Peer& operator[](int handle) const { return *peers_[static_cast<std::size_t>(handle)]; }
  void lose(int handle, const std::string& why) {
    (*this)[handle].lost = true;
    (*this)[handle].why = why;
    any_lost_ = true;
  }
  bool any_lost() const { return any_lost_; }
  // `handle` is that of a member, or negative if the member is this process.
  bool reaches(int handle) const { return handle >= 0 && (!(*this)[handle].lost || (*this)[handle].garbled); }

  auto begin() { return peers_.begin(); }
  auto end() { return peers_.end(); }
  // Whether a link has queued something for which there was no room. That is work, even if no operation waits for it.
  bool any_waiting() const { return waiting_links_ > 0; }
  std::span<Link* const> shm_links() const { return shm_links_; }
  std::span<Link* const> tcp_links() const { return tcp_links_; }

 private:
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Link*> shm_links_;
  std::vector<Link*> tcp_links_;
  bool any_lost_ = false;
  std::size_t waiting_links_ = 0;
};

}  // namespace paceline
