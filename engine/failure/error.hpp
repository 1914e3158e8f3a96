// What can go wrong with a collective, said once and carried to every rank.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace paceline {

enum class ErrorKind : std::uint8_t { none, peer_lost, mismatch, timeout, aborted, invalid };

struct Error {
  ErrorKind kind = ErrorKind::none;
  std::string message;

  explicit operator bool() const { return kind != ErrorKind::none; }
};

class Failure : public std::runtime_error {
 public:
  explicit Failure(const Error& error) : std::runtime_error(error.message), kind(error.kind) {}
  Failure(ErrorKind error_kind, const std::string& message) : std::runtime_error(message), kind(error_kind) {}

  ErrorKind kind;
};

}  // namespace paceline
