// SPDX-License-Identifier: Apache-2.0
// What a client may ask of the server, all in one place.
#pragma once

#include <chrono>
#include <cstddef>

namespace sinter::tools::http {

struct Limits {
  std::size_t target_bytes = 8 << 10;   // of a request's target (414 beyond)
  std::size_t header_bytes = 32 << 10;  // of request line and headers together (431)
  std::size_t headers = 100;            // (431)
  std::size_t body_bytes = 64 << 20;    // of a body, decoded (413)
  std::size_t all_body_bytes =
      1 << 30;  // of the bodies of all requests that are not answered (503)
  /// Of a body that nobody wants: of a GET, or of a request that is refused. Beyond, the connection
  /// is closed.
  std::size_t drained_bytes = 64 << 10;
  /// That are open. Then the one that is idle longest makes room, if it is for keep_time; else who
  /// comes waits, and answers end their connections.
  std::size_t connections = 16384;
  std::size_t write_bytes = 64 << 10;  // of a stream that are gathered for one write
  int io_threads = 2;                  // read, write, parse HTTP, frame streams
  int workers = 8;                     // threads of handlers that compute
  int waiters = 256;                   // threads of handlers that wait for something, as needed
  std::size_t queued = 1024;           // requests that wait for a thread (429 beyond)

  // What may pass without an end of it. A body or an answer has its time anew whenever so much has
  // moved as least_rate has moved by then.
  std::chrono::milliseconds header_time{15'000};  // from a request's first byte (408)
  std::chrono::milliseconds body_time{30'000};    // (408)
  std::chrono::milliseconds idle_time{75'000};    // between requests
  std::chrono::milliseconds keep_time{1'000};
  std::chrono::milliseconds write_time{30'000};    // until a client reads
  std::chrono::milliseconds linger_time{2'000};    // of a closed connection, for what is on its way
  std::chrono::milliseconds silence_time{15'000};  // of a stream, until it says that it lives
  std::chrono::milliseconds probe_time{1'000};  // until a client that has closed its half is asked
  std::size_t least_rate = 16 << 10;            // bytes a second
};

}  // namespace sinter::tools::http
