// SPDX-License-Identifier: Apache-2.0
#include "runtime/grammar/xgrammar_calls.h"

#include <new>
#include <string>
#include <vector>

#include <support/logging.h>
#include <support/work.h>

#include "runtime/format_error.h"

namespace {

/// The current call of this thread.
struct Call {
  std::vector<std::string> warnings;
  std::int64_t units = 0;  // remaining budget
};
thread_local Call* current = nullptr;

}  // namespace

// A build with XGRAMMAR_LOG_CUSTOMIZE requires its user to define this.
namespace xgrammar {

void LogFatalImpl(const std::string& file, int line, const std::string& message) {
  throw LogFatalError(file, line, message);
}

void LogMessageImpl(const std::string&, int, int level, const std::string& message) {
  // Called by a destructor, so it must not throw.
  if (level == XGRAMMAR_LOG_LEVEL_WARNING && current != nullptr)
    current->warnings.push_back(message);
}

void CountWork(std::size_t units) {
  if (current == nullptr) return;
  current->units -= static_cast<std::int64_t>(units);
  if (current->units < 0)
    throw sinter::usage_error("it takes too long: shorten it, or say the same with less choices");
}

}  // namespace xgrammar

namespace sinter::grammar {
namespace {

/// The message without the library's source location.
std::string reason_of(std::string message) {
  constexpr std::string_view kCheck = "is false: ";
  if (const auto at = message.find(kCheck); at != std::string::npos)
    message.erase(0, at + kCheck.size());
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return message.empty() ? "it is not understood" : message;
}

}  // namespace

void call_xgrammar(std::int64_t& units, const std::function<void()>& call) {
  Call own{{}, units};
  struct Enter {
    Enter(Call& call, std::int64_t& left) : left_(left) { current = &call; }
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;
    ~Enter() {
      left_ = current->units;
      current = nullptr;
    }
    std::int64_t& left_;
  };
  {
    const Enter enter(own, units);
    try {
      call();
    } catch (const Error&) {
      throw;
    } catch (const std::bad_alloc&) {
      throw usage_error("it does not fit into memory");
    } catch (const xgrammar::LogFatalError& error) {
      // Its own what() contains the time and a source location.
      throw usage_error(reason_of(error.std::runtime_error::what()));
    } catch (const std::exception& error) {
      throw usage_error(reason_of(error.what()));
    }
  }
  if (!own.warnings.empty()) throw usage_error(reason_of(own.warnings.front()));
}

}  // namespace sinter::grammar
