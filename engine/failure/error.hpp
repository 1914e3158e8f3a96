// What can go wrong with a collective. An error is put into words once, and carried to every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace paceline {

enum class ErrorKind : std::uint8_t {
  none,
  peer_lost,
  mismatch,
  timeout,
  aborted,
  invalid,
  refused,  // nothing was begun, and no group fails because of it
};

struct Error {
  ErrorKind kind = ErrorKind::none;
  std::string message = {};
  // The rank that is to blame, as its peers call it: "rank 2 (host, pid)". Empty if no rank is, or several are.
  std::string culprit = {};

  explicit operator bool() const { return kind != ErrorKind::none; }
};

// Write an error as a frame carries it, cut if it is long; and read it, with kind `none` if the payload is garbled.
std::string encoded(const Error& error);
Error decoded(std::span<const std::byte> payload);

class Failure : public std::runtime_error {
 public:
  // `at` is the operation that fails, `of` the name of its tensor, if it has one.
  explicit Failure(const Error& error, std::string at = {}, std::string of = {})
      : std::runtime_error(error.message),
        kind(error.kind),
        culprit(error.culprit),
        operation(std::move(at)),
        tensor(std::move(of)) {}
  Failure(ErrorKind error_kind, const std::string& message) : Failure(Error{error_kind, message}) {}

  ErrorKind kind;
  std::string culprit;
  std::string operation;
  std::string tensor;
};

}  // namespace paceline
