// SPDX-License-Identifier: Apache-2.0
// Errors of Sinter. Standard library only: every folder may include this header.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/export.h>

namespace sinter {

/// The numbers are part of the C ABI: only append.
enum class ErrorCode {
  kUsage = 1,         // a wrong option, input name, type, rank or dimension
  kUnsupported = 2,   // a valid model that needs a feature that Sinter lacks
  kInvalidModel = 3,  // not an ONNX model, or an inconsistent one
  kInvalidPlan = 4,   // not a plan, or damaged, newer, or for another target
  kOutOfMemory = 5,   // host or device memory
  kDevice = 6,        // a missing or failing GPU, driver or library
  kInternal = 7,      // a defect of Sinter itself
  kCancelled = 8,     // the caller asked to stop
};

/// Stable lower-case name of `code`, used in JSON output ("invalid_model").
constexpr std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUsage: return "usage";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kInvalidModel: return "invalid_model";
    case ErrorCode::kInvalidPlan: return "invalid_plan";
    case ErrorCode::kOutOfMemory: return "out_of_memory";
    case ErrorCode::kDevice: return "device";
    case ErrorCode::kInternal: return "internal";
    case ErrorCode::kCancelled: return "cancelled";
  }
  return "internal";
}

/// The base of every exception that Sinter throws. The message says what is wrong, names the node
/// or input, gives the value found and the value expected, and a remedy where possible.
class SINTER_API Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  ErrorCode code() const noexcept { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

  /// Prepends `context` to the message: "importing node 'Conv_12' (Conv-11): ...".
  void add_context(std::string_view context) { message_ = std::string(context) + ": " + message_; }

  /// The model's node that the error is about, its operator ("Conv-11") and the types of its
  /// inputs, as far as known. The message also names the node.
  struct Node {
    std::string name, op;
    std::vector<std::string> inputs;
  };
  const Node& node() const noexcept { return node_; }
  /// Keeps a node set earlier, which is closer to the cause.
  void set_node(Node node) {
    if (node_.name.empty()) node_ = std::move(node);
  }

 private:
  ErrorCode code_;
  std::string message_;
  Node node_;
};

/// Runs `body`; prepends `context` to an Error that leaves it.
template <typename Body>
decltype(auto) with_context(std::string_view context, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.add_context(context);
    throw;
  }
}

}  // namespace sinter
