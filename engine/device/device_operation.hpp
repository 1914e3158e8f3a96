// The host's part of a call: the ranks compare what they do, tell each other where their buffers lie, and, where their
// devices do not reach each other, combine the data. It is an operation of the engine's loop, and stays one until the
// device has done its part: a rank that is lost meanwhile fails it, and the stream is let go on.
//
// If it fails, other ranks may be in the middle of it, or come to it later. It marks the call where their streams read
// that (control.hpp), and is over once none of their kernels may still be in this rank's memory: neither its caller nor
// what comes after this rank's stream gets the memory before. In the same way a rank whose device has come to the end
// learns whether others have left it alone there.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "device/choice.hpp"
#include "device/neighbours.hpp"
#include "device/staging.hpp"

namespace paceline::device {

class DeviceOperation final : public Operation {
 public:
  // call: its number among those of the group on the device; 0: the device has nothing to do.
  DeviceOperation(Engine& engine, Device& device, Neighbours& neighbours, Staging& staging, std::uint32_t call);

  // What a rank does whose kernels work in the memory of the others, where it is found when they have met.
  struct Direct {
    Call call;            // `input` is where the others find it, and `output` where what comes of that belongs
    Address base = 0;     // of the memory that this rank shows them
    Address window = 0;   // where it was copied because it could not be shown where it lay; 0 if it could
    bool to_all = false;  // what is combined is written to where all ranks have it, and not to `call.output`
  };
  // How the device does it: either one, or both where machines come first, or neither. All of this is set before the
  // operation is added to the loop.
  std::unique_ptr<Direct> direct;
  std::unique_ptr<Staging::Chunks> chunks;
  Choice choice;
  Notice notice;

  // The ranks exchange notices. The operation is in the loop already. Throws Failure.
  void meet();
  std::uint32_t call() const { return call_; }

  bool step() override;
  void group_failed(const Error& error) override;
  bool complete() const override { return phase_ == Phase::ended; }
  std::string description() const override;
  std::vector<int> missing() const override;
  std::vector<int> absent() const override;
  bool has_work() const override;
  // Nobody needs to hear at once that a device is through.
  bool patient() const override { return phase_ == Phase::device || phase_ == Phase::withdrawing; }

 protected:
  void begin() override {}
  void let_go(const Error& error) override;
  void clear() override {}

 private:
  enum class Phase : std::uint8_t { meeting, doubting, serving, device, withdrawing, ended };

  bool advance();
  void agree();
  void complete_parameters();
  // Both return whether they could: else the call has failed, or will.
  bool complete_direct(std::span<Parameters> parameters);
  bool complete_by_machine(std::span<Parameters> parameters);
  // Returns where `part` of what rank `from` shows is found here, if it is as long as this rank expects.
  std::optional<Address> find(int from, const Part& part, std::size_t bytes);
  void doubt(int rank, const DriverError& error);
  bool reaches_others() const { return direct != nullptr || choice.path == Path::one_shot; }
  bool finished() const;
  void withdraw(const Error& error);
  void look_later();

  Engine& engine_;
  Device& device_;
  Neighbours& neighbours_;
  Staging& staging_;
  const std::uint32_t call_;
  Handle meeting_;
  std::vector<Notice> notices_;
  Phase phase_ = Phase::meeting;
  // A rank's memory could not be opened. If that rank has died, the engine fails the group for it before this is said.
  struct {
    int rank = -1;
    Error error;
    Clock::time_point said_at;
  } doubt_;
  // While it withdraws: the failure of the group.
  struct {
    Error error;
    Clock::time_point latest;
  } withdrawal_;
};

}  // namespace paceline::device
