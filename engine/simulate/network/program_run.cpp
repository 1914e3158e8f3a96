#include "simulate/network/program_run.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "failure/error.hpp"
#include "program/lower.hpp"

namespace paceline::simulate {

Program lowered(const Plan& plan, int rank, int size, std::size_t count) {
  Program program;
  const auto data = std::make_unique_for_overwrite<std::byte[]>(count * sizeof(float));  // whose pages nobody touches
  Lowering(program, rank, size).all_reduce(plan, data.get(), count, DType::float32, Op::sum, 1);
  return program;
}

ProgramRun::ProgramRun(Tree tree, std::vector<Program> programs, const MessageCost& message)
    : tree_((check(tree), std::move(tree))), cost_(message), fluid_(tree_), ranks_(programs.size()) {
  if (programs.size() != tree_.leaves.size())
    throw Failure(ErrorKind::invalid, "there are " + std::to_string(programs.size()) +
                                          " programs, but the network has " + std::to_string(tree_.leaves.size()) +
                                          " ranks");
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    ranks_[rank].program = std::move(programs[rank]);
    ranks_[rank].tracks.resize(ranks_[rank].program.track_ends.size());
  }
  for (const int count : tree_.cpus) cpus_.emplace_back(static_cast<std::size_t>(count));
}

std::vector<double> ProgramRun::run() {
  left_ = ranks_.size();
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin_tracks(rank);
  std::vector<std::size_t> ended;
  while (left_ > 0) {
    const double event = queue_.empty() ? Fluid::kNever : queue_.next().at;
    const double next = std::min(fluid_.next(), event);
    if (next == Fluid::kNever) throw std::logic_error("simulated programs have stopped before they were complete");
    if (next < now_) throw std::logic_error("simulated time runs backwards");
    now_ = next;
    ended.clear();
    fluid_.advance(now_, ended);
    for (const std::size_t number : ended) left(stream_of_fluid_[number]);
    while (!queue_.empty() && queue_.next().at == now_) happen(queue_.take().what);
  }
  std::vector<double> seconds;
  seconds.reserve(ranks_.size());
  for (const Rank& rank : ranks_) seconds.push_back(rank.over);
  return seconds;
}

ProgramRun::Stream& ProgramRun::stream(std::size_t from, std::size_t to) {
  const auto [found, added] = stream_of_.try_emplace({from, to}, streams_.size());
  if (!added) return streams_[found->second];
  const int sender = static_cast<int>(from);
  const int receiver = static_cast<int>(to);
  const Path way = path(tree_, sender, receiver);
  Stream& made = streams_.emplace_back();
  made.from = static_cast<std::uint32_t>(from);
  made.to = static_cast<std::uint32_t>(to);
  made.number = fluid_.add(way.links);
  made.between = tree_.crosses(sender, receiver);
  made.latency = way.latency;
  stream_of_fluid_.push_back(found->second);
  return made;
}

std::uint32_t& ProgramRun::of_tag(Stream& stream, std::int32_t tag) {
  const auto place = static_cast<std::size_t>(tag);
  if (place >= stream.by_tag.size()) stream.by_tag.resize(place + 1, kUnknown);
  return stream.by_tag[place];
}

void ProgramRun::begin_tracks(std::size_t number) {
  Rank& rank = ranks_[number];
  const auto over = [&](const Track& track) { return track.stage == track.end && track.sends == 0; };
  while (rank.over < 0) {
    while (rank.oldest < rank.begun && over(rank.tracks[rank.oldest])) ++rank.oldest;
    if (rank.oldest == rank.tracks.size()) {
      rank.over = now_;
      --left_;
      return;
    }
    if (rank.begun == std::min(rank.tracks.size(), rank.oldest + rank.program.in_flight)) return;
    const std::size_t begins = rank.begun++;
    Track& track = rank.tracks[begins];
    track.stage = rank.program.first_stage(begins);
    track.end = rank.program.track_ends[begins];
    post_stage(number, begins);
    advance(number, begins);
  }
}

void ProgramRun::post_stage(std::size_t number, std::size_t index) {
  Rank& rank = ranks_[number];
  Track& track = rank.tracks[index];
  track.earlier_sends = track.sends;
  track.after_sends = false;
  const Program& program = rank.program;
  for (std::uint32_t i = program.first_instruction(track.stage); i < program.stage_ends[track.stage]; ++i) {
    const Instruction& instruction = program.instructions[i];
    switch (instruction.kind) {
      case Instruction::Kind::send: send(number, index, instruction); break;
      case Instruction::Kind::receive: await(number, index, instruction.peer, instruction.tag); break;
      case Instruction::Kind::combine:
        track.after_sends |= instruction.after_sends;
        for (std::uint32_t k = 0; k < instruction.inputs; ++k)
          if (const Input& input = program.inputs[instruction.first_input + k]; input.peer >= 0)
            await(number, index, input.peer, input.tag);
        break;
      default: break;
    }
  }
}

void ProgramRun::send(std::size_t number, std::size_t index, const Instruction& instruction) {
  Rank& rank = ranks_[number];
  Stream& to = stream(number, static_cast<std::size_t>(instruction.peer));
  Message message;
  message.stream = static_cast<std::uint32_t>(&to - streams_.data());
  message.tag = static_cast<std::uint32_t>(instruction.tag);
  message.track = static_cast<std::uint32_t>(index);
  message.stage = static_cast<std::uint32_t>(rank.tracks[index].stage);
  message.bytes = static_cast<double>(instruction.bytes) + (to.between ? cost_.header : 0);
  std::uint32_t place = 0;
  if (free_messages_.empty()) {
    place = static_cast<std::uint32_t>(all_.size());
    all_.push_back(message);
  } else {
    place = free_messages_.back();
    free_messages_.pop_back();
    all_[place] = message;
  }
  ++rank.tracks[index].sends;
  ++messages_;
  queue_.add(turn(number, to.between, rank.sends_at), {Kind::leave, place});
}

void ProgramRun::await(std::size_t number, std::size_t index, int peer, std::int32_t tag) {
  std::uint32_t& state = of_tag(stream(static_cast<std::size_t>(peer), number), tag);
  if (state == kHere) return;
  state = static_cast<std::uint32_t>(index) + 1;
  ++ranks_[number].tracks[index].awaited;
}

double ProgramRun::turn(std::size_t rank, bool between, double& free) {
  double at = std::max(now_, free);
  if (const int set = tree_.cpus_of[rank]; set >= 0) {
    double& cpu = *std::ranges::min_element(cpus_[static_cast<std::size_t>(set)]);
    at = std::max(at, cpu);
    cpu = at + (between ? cost_.shared_between : cost_.shared_within);
  }
  free = at + (between ? cost_.between : cost_.within);
  return at;
}

void ProgramRun::happen(const What& what) {
  ++events_;
  const Message& message = all_[what.message];
  Stream& on = streams_[message.stream];
  switch (what.kind) {
    case Kind::leave:
      on.queue.push_back(what.message);
      if (on.queue.size() - on.first == 1) fluid_.start(on.number, message.bytes);
      return;
    case Kind::arrive: queue_.add(turn(on.to, on.between, ranks_[on.to].takes_at), {Kind::take, what.message}); return;
    case Kind::take: {
      const Message taken = message;
      free_messages_.push_back(what.message);
      return take(taken);
    }
  }
}

// The last byte of a stream's first message has left its sender.
void ProgramRun::left(std::size_t number) {
  Stream& on = streams_[number];
  const std::uint32_t place = on.queue[on.first++];
  const Message message = all_[place];
  queue_.add(now_ + on.latency, {Kind::arrive, place});
  if (on.first == on.queue.size()) {
    on.queue.clear();
    on.first = 0;
  } else {
    fluid_.start(on.number, all_[on.queue[on.first]].bytes);
  }
  const std::size_t sender = on.from;
  Track& track = ranks_[sender].tracks[message.track];
  --track.sends;
  if (message.stage < track.stage && track.earlier_sends > 0) --track.earlier_sends;
  advance(sender, message.track);
  begin_tracks(sender);
}

void ProgramRun::take(const Message& message) {
  Stream& on = streams_[message.stream];
  const std::size_t receiver = on.to;
  std::uint32_t& state = of_tag(on, static_cast<std::int32_t>(message.tag));
  const std::uint32_t awaits = state;
  state = kHere;
  if (awaits == kUnknown) return;
  --ranks_[receiver].tracks[awaits - 1].awaited;
  advance(receiver, awaits - 1);
  begin_tracks(receiver);
}

// Goes on to the stages whose turn it is.
void ProgramRun::advance(std::size_t number, std::size_t index) {
  while (true) {
    Track& track = ranks_[number].tracks[index];
    if (track.stage == track.end || track.awaited > 0 || (track.after_sends && track.earlier_sends > 0)) return;
    if (++track.stage < track.end) post_stage(number, index);
  }
}

}  // namespace paceline::simulate
