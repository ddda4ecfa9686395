// SPDX-License-Identifier: Apache-2.0
// Images in messages: data URLs alone, since the server fetches nothing.
#pragma once

#include <string>
#include <string_view>

namespace sinter::tools {

/// The bytes of "data:image/..;base64,..". Throws ApiError (400) naming `field` for other URLs,
/// bad base64, and more than kMostImageFileBytes.
std::string bytes_of_image_url(const char* field, std::string_view url);

}  // namespace sinter::tools
