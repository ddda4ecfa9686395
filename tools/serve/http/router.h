// SPDX-License-Identifier: Apache-2.0
// Which handler a request is for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/http/message.h"

namespace sinter::tools::http {

/// Which threads run a handler.
enum class Work : std::uint8_t {
  kQuick,   // a few microseconds; answered even while all workers are busy
  kWorker,  // computes: parses, renders, tokenizes
  kWaiter,  // waits for something that takes long, as a model that loads
};

/// May throw: Hooks::error makes an answer of it.
using Handler = std::function<Response(const Request&)>;

struct Route {
  std::string method;                 // GET answers HEAD, too
  std::vector<std::string> segments;  // of the path; "{name}" stands for any that is not empty
  Work work = Work::kWorker;
  std::uint32_t marks = 0;  // the application's
  Handler handler;
};

class Router {
 public:
  /// `pattern`: "/v1/models/{name}". Several handlers of a path differ in the method.
  void add(std::string method, std::string_view pattern, Work work, std::uint32_t marks,
           Handler handler);

  struct Match {
    const Route* route = nullptr;         // null: none
    std::vector<std::string> parameters;  // decoded
    std::string allowed;                  // methods of the path ("GET, HEAD, OPTIONS"), or empty
  };
  Match find(std::string_view method, std::string_view path) const;
  /// Of all paths.
  std::string all_methods() const;

 private:
  std::vector<Route> routes_;
};

}  // namespace sinter::tools::http
