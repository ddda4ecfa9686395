// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/vision/image_text.h"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

namespace sinter::tools {
namespace {

std::string whole_alone(int, int, const std::string& piece) { return piece; }

std::string between_ends(int, int, const std::string& piece) { return "<img>" + piece + "</img>"; }

/// Idefics 3 and SmolVLM: each tile behind its place, then the whole.
std::string tiles(int rows, int columns, const std::string& piece) {
  constexpr std::string_view kAround = "<fake_token_around_image>", kWhole = "<global-img>";
  std::string text;
  for (int row = 1; row <= rows; ++row) {
    for (int column = 1; column <= columns; ++column)
      text += fmt::format("{}<row_{}_col_{}>{}", kAround, row, column, piece);
    text += "\n";
  }
  if (rows > 0) text += "\n";
  return text + fmt::format("{}{}{}{}", kAround, kWhole, piece, kAround);
}

constexpr ImageTextRow kRows[] = {
    {"idefics3", "image_token_id", tiles},
    {"smolvlm", "image_token_id", tiles},
    {"llava", "image_token_index", whole_alone},
    {"internvl", "image_token_id", between_ends},
};

}  // namespace

const ImageTextRow* find_image_text(std::string_view model_type) {
  const auto* row = std::ranges::find(kRows, model_type, &ImageTextRow::model_type);
  return row == std::end(kRows) ? nullptr : row;
}

std::string image_text_names() {
  std::string names;
  for (const ImageTextRow& row : kRows)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.model_type);
  return names;
}

}  // namespace sinter::tools
