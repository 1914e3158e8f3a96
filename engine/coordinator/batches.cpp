// The batches that a coordinator's policy issues, one after the other on each channel.
#include <algorithm>
#include <ranges>
#include <utility>

#include "calibration/constants.hpp"
#include "coordinator/coordinator.hpp"
#include "progress/times.hpp"
#include "trace/events.hpp"

namespace paceline {

// Only batches on channel 0 are never taken back.
Coordinator::Stream::Stream(Coordinator& owner, std::shared_ptr<Group> own_group, std::uint32_t own_channel)
    : group(std::move(own_group)),
      channel(own_channel),
      fusion(owner.loop_.arena()),
      context{*owner.engine_, *group, fusion, own_channel != 0,
              [&owner](PendingRequest& pending) { owner.settle(pending); }} {}

Coordinator::Stream* Coordinator::find_stream(std::uint32_t channel) {
  const auto found = std::ranges::find(streams_, channel, [](const auto& stream) { return stream->channel; });
  return found == streams_.end() ? nullptr : found->get();
}

// Every channel has a group of its own: if batches are taken back, no rank can end in that group what others have
// begun. A new channel takes the place of the last one, unless that is channel 0.
Coordinator::Stream& Coordinator::stream_of(std::uint32_t channel) {
  if (Stream* const found = find_stream(channel)) return *found;
  for (auto& stream : streams_ | std::views::drop(1)) stream->ending = true;
  const Group& like = *streams_.front()->group;
  std::vector<int> peers;
  peers.reserve(like.members.size());
  for (const Member& member : like.members) peers.push_back(member.peer);
  auto made = loop_.make_group(like.channel + channel, like.rank, peers, like.timeout, like.plans);
  made->use = Group::Use::data;
  return *streams_.emplace_back(std::make_unique<Stream>(*this, std::move(made), channel));
}

void Coordinator::carry_out(Issue& action, Now) {
  const auto now = Clock::now();
  Stream& stream = stream_of(action.channel);
  std::uint64_t packed = 0;
  Batch batch;
  batch.number = stream.issued++;
  for (RequestPtr& request : action.requests) {
    const auto found = names_.find(request->name);
    auto own = found != names_.end() ? found->second.current : nullptr;
    if (own) {
      found->second.issued_before = true;
      own->issued = true;
      own->record.batch = totals_.batches;
      own->record.negotiated_ns = ns_of(now);
      if (own->record.last) {
        const auto took = static_cast<std::uint64_t>(ns_of(now) - own->record.submitted_ns);
        totals_.negotiation_ns += took;
        totals_.longest_negotiation_ns = std::max(totals_.longest_negotiation_ns, took);
        ++totals_.negotiations;
      }
    }
    if (!action.error.empty()) {
      if (own) settle(*own, {ErrorKind::mismatch, action.error});
      continue;
    }
    batch.bytes += request->bytes;
    if (is_packed(*request)) packed += request->bytes;
    batch.carried.push_back({std::move(request), std::move(own)});
  }
  if (batch.carried.empty()) {
    ++ended_;
    return;
  }
  ++totals_.batches;
  if (batch.carried.size() > 1) totals_.fused_bytes += packed;
  busy_ += std::max<std::uint64_t>(batch.bytes, 1);
  stream.queue.push_back(std::move(batch));
  policy_->busy(busy_);
}

// This rank does not take part any more in batches from that number on, even if other ranks have begun some. It does
// take part in those before, even if it has yet to begin on the channel.
void Coordinator::carry_out(Cancel& action, Now) {
  if (find_stream(action.channel) == nullptr) {
    const auto channel = streams_.front()->group->channel + action.channel;
    if (action.from == 0) loop_.close_channel(channel);
    if (loop_.is_closed(channel)) return;
  }
  Stream& stream = stream_of(action.channel);
  stream.ending = true;
  stream.due = action.from;
  const auto first =
      std::ranges::find_if(stream.queue, [&](const Batch& batch) { return batch.number >= action.from; });
  for (auto batch = first; batch != stream.queue.end(); ++batch) {
    if (batch->work) abandon(*batch->work);
    for (const Carried& carried : batch->work ? batch->work->carried() : std::span<const Carried>(batch->carried))
      if (carried.own) carried.own->issued = false;
    busy_ -= std::max<std::uint64_t>(batch->bytes, 1);
  }
  stream.queue.erase(first, stream.queue.end());
  policy_->busy(busy_);
}

bool Coordinator::carry() {
  bool moved = false;
  const auto before = busy_;
  for (std::size_t i = 0; i < streams_.size(); ++i) moved |= carry(*streams_[i]);
  std::erase_if(streams_, [&](const auto& stream) {
    const bool over = stream->ending && stream->queue.empty() && stream->issued >= stream->due;
    if (over) loop_.drop_group(*stream->group);
    return over;
  });
  if (busy_ != before) policy_->busy(busy_);
  return moved;
}

bool Coordinator::carry(Stream& stream) {
  bool moved = false;
  while (!stream.queue.empty()) {
    Batch& batch = stream.queue.front();
    const bool packs = batch.work ? batch.work->has_work() : batch.carried.size() > 1;
    if (submitting_ && batch.bytes > calibration::kPackedBySubmitter && packs) break;
    if (!batch.work) {
      if (stops(stream)) {
        report_stop(stream);
        break;
      }
      begin_batch(stream);
    }
    if (!batch.work->step()) break;
    moved = true;
    if (!batch.work->over()) break;
    end_batch(stream);
  }
  return moved;
}

bool Coordinator::stops(const Stream& stream) {
  return stream.group->large_calls != nullptr && stream.group->large_calls->stops();
}

void Coordinator::report_stop(Stream& stream) {
  if (!std::exchange(stream.stopped, true)) loop_.report(stops_id_);
}

void Coordinator::begin_batch(Stream& stream) {
  Batch& batch = stream.queue.front();
  stream.stopped = false;
  const Fingerprint& what = batch.carried.front().request->what;
  LargeCalls* const calls = stream.group->large_calls.get();
  if (calls != nullptr && what.collective == Collective::all_reduce && LargeCalls::counts(what, batch.bytes))
    batch.large = static_cast<std::int64_t>(calls->begin(what.collective, batch.bytes, realtime_ns()));
  batch.work = paceline::carry(stream.context, std::move(batch.carried));
}

void Coordinator::end_batch(Stream& stream) {
  const Batch& batch = stream.queue.front();
  busy_ -= std::max<std::uint64_t>(batch.bytes, 1);
  if (batch.large >= 0) stream.group->large_calls->end(static_cast<std::uint64_t>(batch.large), realtime_ns());
  stream.queue.pop_front();
  ++ended_;
}

// Gives up the collectives under way, which nobody will ever end.
void Coordinator::abandon(const BatchWork& work) {
  for (const Handle& handle : work.moving()) handle->fail({ErrorKind::aborted, "its batch was taken back"});
}

}  // namespace paceline
