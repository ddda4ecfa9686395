// SPDX-License-Identifier: Apache-2.0
// A body of Beast's parser that counts what it holds, or throws away what comes. Private to this
// folder.
#pragma once

#include <atomic>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sinter::tools::http {

struct BoundedBody {
  struct value_type {
    std::string text;
    bool keeps = false;                       // else it is thrown away
    std::size_t most = 0;                     // bytes
    std::size_t count = 0;                    // that have come
    std::size_t held = 0;                     // of `all`
    std::atomic<std::size_t>* all = nullptr;  // bytes of all bodies that are kept
    std::size_t most_of_all = 0;
    bool is_starved = false;  // `all` is full
  };

  class reader {
   public:
    template <bool is_request, class Fields>
    reader(boost::beast::http::header<is_request, Fields>&, value_type& body) : body_(body) {}

    // A length that is only said is no reason to take memory.
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& error) {
      error = {};
    }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      std::size_t bytes = 0;
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        const std::size_t size = buffer.size();
        body_.count += size;
        if (body_.count > body_.most) {
          error = boost::beast::http::error::body_limit;
          return bytes;
        }
        if (body_.keeps) {
          if (body_.all->fetch_add(size) + size > body_.most_of_all) {
            *body_.all -= size;
            body_.is_starved = true;
            error = boost::beast::http::error::body_limit;
            return bytes;
          }
          body_.held += size;
          body_.text.append(static_cast<const char*>(buffer.data()), size);
        }
        bytes += size;
      }
      return bytes;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& body_;
  };
};

}  // namespace sinter::tools::http
