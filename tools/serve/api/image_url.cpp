// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/api/image_url.h"

#include <fmt/format.h>

#include "tools/serve/api/base64.h"
#include "tools/serve/api/limits.h"
#include "tools/serve/api/request_fields.h"

namespace sinter::tools {

std::string bytes_of_image_url(const char* field, std::string_view url) {
  constexpr std::string_view kStart = "data:image/", kForm = ";base64,";
  const std::size_t form = url.substr(0, kMostShownBytes).find(kForm);
  if (!url.starts_with(kStart) || form == std::string_view::npos)
    RequestFields::fail(
        field, "has an image that is no data URL (data:image/png;base64,..): none is fetched");
  const std::string_view text = url.substr(form + kForm.size());
  if (text.size() / 4 * 3 > kMostImageFileBytes)
    RequestFields::fail(field, fmt::format("has an image of {} bytes: {} at most",
                                           text.size() / 4 * 3, kMostImageFileBytes));
  auto bytes = bytes_of_base64(text);
  if (!bytes) RequestFields::fail(field, "has an image that is no base64");
  return *std::move(bytes);
}

}  // namespace sinter::tools
