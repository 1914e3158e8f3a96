// Requests that are ready everywhere and wait for the next cut of the log; a cut makes batches of them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "policy/policy.hpp"

namespace paceline {

class Window {
 public:
  explicit Window(std::uint64_t fusion_bytes) : fusion_bytes_(fusion_bytes) {}

  // `error` is what the request fails with, or empty.
  void add(RequestPtr request, std::int32_t priority, std::string error);
  // The request fails with this error, because ranks disagree on its bundle: nobody knows what that has to wait for, so
  // what is there of `bundles`, which ranks gave, fails with it.
  void add_disputed(RequestPtr request, std::int32_t priority, const std::string& error,
                    std::span<const std::uint64_t> bundles);

  // Tell whether there is anything to cut, whether this request is, and how many bytes there are. Bundles that are not
  // complete do not count: they wait on.
  bool empty() const { return items_.empty(); }
  bool has(const Request& request) const;
  std::uint64_t bytes() const { return bytes_; }

  // Gives back the bundles that are not complete, and forgets them.
  std::vector<RequestPtr> take_back();

  // From here on batches have at most so many bytes.
  void set_fusion_bytes(std::uint64_t fusion_bytes) { fusion_bytes_ = fusion_bytes; }
  std::uint64_t fusion_bytes() const { return fusion_bytes_; }

  // Returns everything as batches: failures first, then by priority, and in the order of adding if that is equal.
  void cut(std::vector<Issue>& batches);

 private:
  struct Item {
    RequestPtr request;
    std::int32_t priority;
    std::string error;
  };

  void release(std::vector<Item> bundle);

  std::uint64_t fusion_bytes_;
  std::vector<Item> items_;
  std::map<std::uint64_t, std::vector<Item>> bundles_;  // the bundles that miss members
  std::vector<RequestPtr> order_;
  std::uint64_t bytes_ = 0;
};

}  // namespace paceline
