#include "coordinator/batches.hpp"

#include <algorithm>
#include <ranges>
#include <utility>

#include "calibration/named.hpp"
#include "coordinator/data_group.hpp"
#include "progress/times.hpp"
#include "trace/events.hpp"

namespace paceline {
namespace {

// What a batch adds to the bytes under way: a barrier has none, and is under way all the same.
std::uint64_t weight(std::uint64_t bytes) { return std::max<std::uint64_t>(bytes, 1); }

}  // namespace

Batches::Stream::Stream(Batches& owner, std::shared_ptr<Group> own_group, std::uint32_t own_channel)
    : group(std::move(own_group)),
      channel(own_channel),
      fusion(owner.loop_.arena()),
      context{owner.engine_, *group, fusion, owner.device_calls_, own_channel != 0, owner.finished_} {}

// Runs of a policy that takes batches back use the channels from 1 on, and no policy that does takes requests on a
// device: see takes_back.
Batches::Batches(const std::shared_ptr<Engine>& engine, std::shared_ptr<Group> data, Finished finished,
                 std::function<void()> moved)
    : engine_(*engine),
      loop_(engine->host()),
      finished_(std::move(finished)),
      device_calls_(engine, data, data->channel + 1, std::move(moved)),
      stops_id_(loop_.next_id()) {
  streams_.push_back(std::make_unique<Stream>(*this, std::move(data), 0));
}

Batches::Stream* Batches::find_stream(std::uint32_t channel) {
  const auto found = std::ranges::find(streams_, channel, [](const auto& stream) { return stream->channel; });
  return found == streams_.end() ? nullptr : found->get();
}

Batches::Stream& Batches::stream_of(std::uint32_t channel) {
  if (Stream* const found = find_stream(channel)) return *found;
  for (auto& stream : streams_ | std::views::drop(1)) stream->ending = true;
  const Group& like = *streams_.front()->group;
  auto made = make_data_group(loop_, like.channel + channel, like);
  return *streams_.emplace_back(std::make_unique<Stream>(*this, std::move(made), channel));
}

void Batches::add(std::uint32_t channel, std::vector<Carried> batch, std::uint64_t bytes) {
  Stream& stream = stream_of(channel);
  stream.queue.push_back({stream.issued++, bytes, std::move(batch), nullptr});
  bytes_ += weight(bytes);
}

void Batches::cancel(const Cancel& what) {
  if (find_stream(what.channel) == nullptr) {
    if (closed_.contains(what.channel)) return;
    if (what.from == 0) {
      const Group& like = *streams_.front()->group;
      closed_.add(what.channel);
      return loop_.close_channel(like.channel + what.channel, like);
    }
  }
  Stream& stream = stream_of(what.channel);
  stream.ending = true;
  stream.due = what.from;
  const auto first = std::ranges::find_if(stream.queue, [&](const Batch& batch) { return batch.number >= what.from; });
  for (auto batch = first; batch != stream.queue.end(); ++batch) {
    if (batch->work) abandon(*batch->work);
    for (const Carried& carried : batch->work ? batch->work->carried() : std::span<const Carried>(batch->carried))
      if (carried.own) carried.own->issued = false;
    bytes_ -= weight(batch->bytes);
  }
  stream.queue.erase(first, stream.queue.end());
}

bool Batches::advance(bool submitting) {
  bool moved = false;
  for (std::size_t i = 0; i < streams_.size(); ++i) moved |= advance(*streams_[i], submitting);
  std::erase_if(streams_, [&](const auto& stream) {
    const bool over = stream->ending && stream->queue.empty() && stream->issued >= stream->due;
    if (!over) return false;
    closed_.add(stream->channel);
    loop_.drop_group(*stream->group);
    return true;
  });
  return moved;
}

bool Batches::advance(Stream& stream, bool submitting) {
  bool moved = false;
  while (!stream.queue.empty()) {
    Batch& batch = stream.queue.front();
    const bool packs = batch.work ? batch.work->has_work() : batch.carried.size() > 1;
    if (submitting && batch.bytes > calibration::kPackedBySubmitter && packs) break;
    if (!batch.work) {
      if (stops(stream)) {
        report_stop(stream);
        break;
      }
      begin(stream);
    }
    if (!batch.work->step()) break;
    moved = true;
    if (!batch.work->over()) break;
    end(stream);
  }
  return moved;
}

bool Batches::stops(const Stream& stream) {
  return stream.group->large_calls != nullptr && stream.group->large_calls->stops();
}

void Batches::report_stop(Stream& stream) {
  if (!std::exchange(stream.stopped, true)) loop_.report(stops_id_);
}

void Batches::begin(Stream& stream) {
  Batch& batch = stream.queue.front();
  stream.stopped = false;
  const Request& first = *batch.carried.front().request;
  const Fingerprint& what = first.what;
  LargeCalls* const calls = stream.group->large_calls.get();
  if (calls != nullptr && !first.on_device && what.collective == Collective::all_reduce &&
      LargeCalls::counts(what, batch.bytes))
    batch.large = static_cast<std::int64_t>(calls->begin(what.collective, batch.bytes, realtime_ns()));
  batch.work = start_batch(stream.context, std::move(batch.carried));
}

void Batches::end(Stream& stream) {
  const Batch& batch = stream.queue.front();
  bytes_ -= weight(batch.bytes);
  if (batch.large >= 0) stream.group->large_calls->end(static_cast<std::uint64_t>(batch.large), realtime_ns());
  stream.queue.pop_front();
  ++ended_;
}

// Gives up the collectives under way, which nobody will ever end.
void Batches::abandon(const BatchWork& work) {
  for (const Handle& handle : work.moving()) handle->fail({ErrorKind::aborted, "its batch was taken back"});
}

bool Batches::has_work() const {
  return std::ranges::any_of(streams_, [](const auto& stream) {
    if (stream->queue.empty()) return false;
    const BatchWork* work = stream->queue.front().work.get();
    if (work == nullptr) return !stops(*stream);
    return work->has_work() ||
           std::ranges::any_of(work->moving(), [](const Handle& handle) { return handle->has_work(); });
  });
}

std::vector<Handle> Batches::moving() const {
  std::vector<Handle> found;
  for (const auto& stream : streams_)
    if (!stream->queue.empty() && stream->queue.front().work) {
      const auto moving = stream->queue.front().work->moving();
      found.insert(found.end(), moving.begin(), moving.end());
    }
  return found;
}

const Error* Batches::error() const {
  for (const auto& stream : streams_)
    if (stream->group->error) return &stream->group->error;
  return device_calls_.error();
}

void Batches::fail_groups(const Error& error) {
  for (const auto& stream : streams_) loop_.fail_group(*stream->group, error);
  device_calls_.fail_group(error);
}

void Batches::clear() {
  for (const auto& stream : streams_) stream->queue.clear();
  bytes_ = 0;
}

void Batches::drop() {
  for (const auto& stream : streams_) loop_.drop_group(*stream->group);
  streams_.clear();
  device_calls_.leave();
}

}  // namespace paceline
