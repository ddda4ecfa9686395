// SPDX-License-Identifier: Apache-2.0
// The text of tokens as they come, up to a stop string.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/engine/utf8.h"

namespace sinter::engine {

class OutputText {
 public:
  /// `stops` are not empty strings and outlive this.
  explicit OutputText(std::span<const std::string> stops) : stops_(stops) {}

  /// The text that a token's bytes make certain: whole characters, of which none can become a part
  /// of a stop string that comes before all others. After a stop string nothing more may come.
  std::string add(std::string_view bytes);
  /// The same of whole characters.
  std::string add_characters(std::string_view text);
  /// Whether stop strings are looked for in what comes, as at first.
  void look_for_stops(bool looks) { looks_ = looks; }
  bool has_stopped() const { return has_stopped_; }
  /// What was held back.
  std::string finish();

 private:
  std::string release(bool all);

  std::span<const std::string> stops_;
  Utf8Stream characters_;
  std::string held_;
  bool looks_ = true, has_stopped_ = false;
};

}  // namespace sinter::engine
