// SPDX-License-Identifier: Apache-2.0
// Requests and answers of HTTP/1.1, as handlers see them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sinter::tools::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;       // of the target, without the query, as it was sent
  std::string host;       // of the header, or of a target that names one; with the port
  Headers headers;        // names in lower case, in the order of the request
  std::string body;       // decoded; empty until a handler runs
  bool has_body = false;  // whether there is one, of any length above 0
  std::vector<std::string> parameters;  // what the route's {names} stand for, decoded

  /// The first of that name (lower case), or empty.
  std::string_view header(std::string_view name) const;
  bool has(std::string_view name) const;
  /// Of Content-Type, in lower case and without parameters; empty without one.
  std::string media_type() const;
};

/// A part of a body that is sent from where it lies.
struct Piece {
  std::string_view bytes;
  std::shared_ptr<const void> owner;
};

/// A body that comes bit by bit. next() and silence() are called by one thread at a time.
class Source {
 public:
  enum class State : std::uint8_t {
    kMore,  // something was added; there may be more
    kWait,  // nothing now: the callback of on_ready says when
    kEnd,   // what was added is the last
  };
  virtual ~Source() = default;
  /// Adds what is there to `to`. Does not wait and computes little: a thread of the server's calls.
  virtual State next(std::string& to) = 0;
  /// `wake` may be called from any thread, also within this; too often does no harm.
  virtual void on_ready(std::function<void()> wake) { static_cast<void>(wake); }
  /// Whether too much waits for a client that reads slowly, who is then broken off. Asked before
  /// next(), and when `wake` was called while something is being written.
  virtual bool is_behind() const { return false; }
  /// What is sent when there was nothing for Limits::silence_time.
  virtual std::string silence() { return {}; }
};

struct Response;

/// An answer that is not there yet. poll() is called by a worker.
class Later {
 public:
  virtual ~Later() = default;
  /// Nothing: not yet, `wake` will be called again.
  virtual std::optional<Response> poll() = 0;
  /// `wake` may be called from any thread, also within this.
  virtual void on_ready(std::function<void()> wake) = 0;
};

/// Later goes before source, source before body and pieces.
struct Response {
  int status = 200;
  std::string type;  // Content-Type
  Headers headers;   // without those that frame the body
  std::string body;
  std::vector<Piece> pieces;  // behind `body`
  std::shared_ptr<Source> source;
  std::shared_ptr<Later> later;
  bool closes = false;  // the connection
};

/// "Not Found"; empty for a status without a name.
std::string_view reason_of(int status);
/// Status line and headers. `framing`: "Content-Length: 3\r\n" or alike.
std::string head_of(const Response& response, bool keeps_alive, std::string_view framing);
/// Without %XX; nothing if one is bad, or stands for NUL.
std::optional<std::string> decode_percent(std::string_view text);
std::string lower(std::string_view text);

}  // namespace sinter::tools::http
