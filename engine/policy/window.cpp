#include "policy/window.hpp"

#include <algorithm>

#include "policy/fuse.hpp"

namespace paceline {

void Window::add(RequestPtr request, std::int32_t priority, std::string error) {
  const Bundle bundle = request->bundle;
  std::vector<Item> items;
  if (bundle.id == 0 || bundle.size <= 1) {
    items_.push_back({std::move(request), priority, std::move(error)});
    bytes_ += agreed_bytes(*items_.back().request);
    return;
  }
  const auto gathered = bundles_.try_emplace(bundle.id).first;
  gathered->second.push_back({std::move(request), priority, std::move(error)});
  if (gathered->second.size() < bundle.size) return;
  release(std::move(gathered->second));
  bundles_.erase(gathered);
}

void Window::add_disputed(RequestPtr request, std::int32_t priority, const std::string& error,
                          std::span<const std::uint64_t> bundles) {
  bytes_ += agreed_bytes(*request);
  items_.push_back({std::move(request), priority, error});
  for (const std::uint64_t id : bundles) {
    const auto gathered = bundles_.find(id);
    if (gathered == bundles_.end()) continue;
    for (Item& item : gathered->second)
      if (item.error.empty()) item.error = error;
    release(std::move(gathered->second));
    bundles_.erase(gathered);
  }
}

bool Window::has(const Request& request) const {
  const auto is_it = [&](const Item& item) { return item.request.get() == &request; };
  return std::ranges::any_of(items_, is_it) ||
         std::ranges::any_of(bundles_, [&](const auto& bundle) { return std::ranges::any_of(bundle.second, is_it); });
}

std::vector<RequestPtr> Window::take_back() {
  std::vector<RequestPtr> back;
  for (auto& [id, bundle] : bundles_)
    for (Item& item : bundle) back.push_back(std::move(item.request));
  bundles_.clear();
  return back;
}

void Window::release(std::vector<Item> bundle) {
  std::int32_t priority = bundle[0].priority;
  const std::string* error = &bundle[0].error;
  for (const Item& item : bundle) {
    priority = std::max(priority, item.priority);
    if (error->empty()) error = &item.error;
    bytes_ += agreed_bytes(*item.request);
  }
  const std::string shared = *error;
  for (Item& item : bundle) items_.push_back({std::move(item.request), priority, shared});
}

void Window::cut(std::vector<Issue>& batches) {
  const auto higher = [](const Item& one, const Item& other) { return one.priority > other.priority; };
  if (!std::ranges::is_sorted(items_, higher)) std::ranges::stable_sort(items_, higher);
  order_.clear();
  for (Item& item : items_) {
    if (item.error.empty()) {
      order_.push_back(std::move(item.request));
      continue;
    }
    Issue failed;
    failed.requests.push_back(std::move(item.request));
    failed.error = std::move(item.error);
    batches.push_back(std::move(failed));
  }
  items_.clear();
  bytes_ = 0;
  fuse(order_, fusion_bytes_, [&](std::vector<RequestPtr> together) {
    Issue issue;
    issue.requests = std::move(together);
    batches.push_back(std::move(issue));
  });
}

}  // namespace paceline
