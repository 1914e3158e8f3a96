// A collective as messages over links: carries out a program.
#pragma once

#include <span>
#include <vector>

#include "execute/operation.hpp"
#include "execute/program.hpp"
#include "execute/receive.hpp"

namespace paceline {

class MessageOperation final : public Operation {
 public:
  Program program;
  std::vector<std::byte> scratch;

  bool step() override;
  bool complete() const override { return stage_ == program.stage_ends.size() && sends_done(); }
  int source() const override;
  std::vector<int> missing() const override;
  std::vector<int> absent() const override;
  bool has_work() const override;
  bool read_remotely() const override { return read_remotely_; }

 protected:
  void begin() override;
  void let_go() override;
  void clear() override;

 private:
  struct Combining {
    const Action* action;
    std::size_t first_receive;  // in receives_
    std::size_t receives;
    bool in_place;
    std::size_t position = 0;  // bytes combined in place, or streams taken in
    bool done = false;
  };

  void post_stage();
  void post_receive(Receive& receive);
  void post_combine(const Action& action);
  bool pull(Receive& receive);
  bool combine(Combining& work);
  bool combine_in_place(Combining& work);
  bool combine_streams(Combining& work);
  const std::byte* locate(Receive& receive, std::size_t offset, std::size_t size, std::byte* scratch_block);
  bool read(Receive& receive, std::size_t offset, std::byte* data, std::size_t size);
  void release(Receive& receive);
  bool stage_complete() const;
  bool sends_done() const;
  Receive& next_receive(int peer, std::int32_t tag, std::byte* to, std::size_t bytes);
  std::uint32_t stage_begin() const { return stage_ == 0 ? 0 : program.stage_ends[stage_ - 1]; }

  bool read_remotely_ = false;
  std::size_t stage_ = 0;
  bool posted_ = false;
  std::vector<Send> sends_;
  std::vector<Receive> receives_;
  std::size_t sends_used_ = 0;
  std::size_t receives_used_ = 0;
  std::size_t stage_receives_ = 0;  // the first of this stage
  std::vector<Combining> combining_;
  std::vector<const std::byte*> inputs_;    // of the combination under way
  Fold inner_fold_{DType::uint8, Op::sum};  // the program's fold without the final division
};

}  // namespace paceline
