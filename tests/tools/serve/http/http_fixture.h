// SPDX-License-Identifier: Apache-2.0
// A server of HTTP without models, and a client that sends bytes as they are.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "tools/serve/http/server.h"

namespace sinter::tests {

namespace http = tools::http;

/// Beginnings and ends of requests.
inline const std::string kGet = "GET /quick HTTP/1.1\r\nHost: x\r\n";
inline const std::string kPost = "POST /echo HTTP/1.1\r\nHost: x\r\n";
inline const std::string kEnd = "Connection: close\r\n\r\n";
inline const std::string kEmpty = "Content-Length: 0\r\n\r\n";

/// Bytes over a socket.
class RawClient {
 public:
  explicit RawClient(int port);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False: the server has closed it.
  bool send(std::string_view text) const;
  void close_half() const;
  /// Closes with what is not read, or at once by a reset.
  void close(bool resets = false);
  /// All that comes until the server closes, or `wanted` is in it.
  std::string read(std::string_view wanted = "") const;
  /// Whether the server closes it within some seconds; what comes is thrown away.
  bool is_closed() const;

 private:
  int socket_ = -1;
};

/// Status codes of all answers in `text`, interim ones too.
std::vector<int> statuses(std::string_view text);
/// The body of the only answer.
std::string body_of(std::string_view text);

/// Waits for some seconds.
bool eventually(const std::function<bool()>& is_true);

/// Lets threads wait for a test.
class Gate {
 public:
  void wait();
  bool is_open();
  void open();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

/// GET /quick; POST /echo; POST /wait answers when the gate is open, behind a worker; POST /later
/// and GET /stream wait for it without one; GET /endless streams for ever, and falls behind when it
/// is open; GET /name/{name}.
class HttpTest : public testing::Test {
 protected:
  void TearDown() override;
  void begin();
  void end();
  /// One request, and all that comes until the connection is closed.
  std::string ask(std::string_view text) const;
  std::uint64_t refused(http::Refused reason) const {
    return server_->figures().refused[static_cast<std::size_t>(reason)];
  }

  http::Limits limits_;
  Gate gate_;
  std::atomic<int> handled_ = 0, sources_ = 0;  // sources_: that are alive
  std::unique_ptr<http::Server> server_;
  std::thread thread_;
  int port_ = 0;
};

}  // namespace sinter::tests
