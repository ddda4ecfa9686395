// SPDX-License-Identifier: Apache-2.0
// Why a model is not paged.
#pragma once

#include <string_view>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::fusion {

class PagingRefused : public Error {
 public:
  /// `is_decoder`: token ids and caches were found, and what reads them cannot be paged.
  explicit PagingRefused(std::string_view why, bool is_decoder = true)
      : Error(ErrorCode::kUnsupported,
              fmt::format("--serve: {}; or compile with --serve=off", why)),
        is_decoder(is_decoder) {}

  bool is_decoder;
};

}  // namespace sinter::fusion
