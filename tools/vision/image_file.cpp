// SPDX-License-Identifier: Apache-2.0
#include "tools/vision/image_file.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>
#include <webp/decode.h>

#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

const std::uint8_t* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

/// Memory for an image of this size.
Image sized(std::int64_t width, std::int64_t height, const std::string& name) {
  if (width < 1 || height < 1 || width > kMostImageSide || height > kMostImageSide ||
      width * height > kMostImagePixels)
    throw usage_error("{} has {} x {} pixels: {} in all, and {} a side, at most", name, width,
                      height, kMostImagePixels, kMostImageSide);
  Image image;
  image.width = static_cast<int>(width);
  image.height = static_cast<int>(height);
  image.pixels.resize(static_cast<std::size_t>(width * height) * 3);
  return image;
}

[[noreturn]] void refuse(const std::string& name, const char* kind, std::string_view why) {
  throw usage_error("{} is a damaged or unsupported {} file: {}", name, kind, ir::shown(why));
}

Image decode_png(std::span<const std::byte> bytes, const std::string& name) {
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0)
    refuse(name, "PNG", png.message);
  struct Free {
    png_image* png;
    ~Free() { png_image_free(png); }
  } const free{&png};
  Image image = sized(png.width, png.height, name);
  // With an alpha channel libpng would mix colours with a background.
  png.format = PNG_FORMAT_RGBA;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(png.width) * png.height * 4);
  if (png_image_finish_read(&png, nullptr, all.data(), 0, nullptr) == 0)
    refuse(name, "PNG", png.message);
  for (std::size_t i = 0; i < all.size() / 4; ++i)
    std::copy_n(all.data() + i * 4, 3, image.pixels.data() + i * 3);
  return image;
}

// Of a progressive file: each costs as much as the image.
constexpr int kMostScans = 64;

struct JpegErrors {
  jpeg_error_mgr manager;
  jpeg_progress_mgr progress;
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> message;
};

/// libjpeg reports errors by a jump: nothing in this function has a destructor.
bool read_jpeg(std::span<const std::byte> bytes, JpegErrors& errors, jpeg_decompress_struct& jpeg,
               bool (*begin)(jpeg_decompress_struct&, void*), void* image) {
  jpeg.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = [](j_common_ptr info) {
    auto* own = reinterpret_cast<JpegErrors*>(info->err);
    info->err->format_message(info, own->message.data());
    std::longjmp(own->back, 1);
  };
  // It would go on with grey where the file ends early.
  errors.manager.emit_message = [](j_common_ptr info, int) {
    if (info->err->msg_code == JWRN_JPEG_EOF) info->err->error_exit(info);
  };
  if (setjmp(errors.back) != 0) {
    jpeg_destroy_decompress(&jpeg);
    return false;
  }
  jpeg_CreateDecompress(&jpeg, JPEG_LIB_VERSION, sizeof jpeg);
  jpeg.progress = &errors.progress;
  errors.progress.progress_monitor = [](j_common_ptr info) {
    auto* own = reinterpret_cast<JpegErrors*>(info->err);
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
    std::snprintf(own->message.data(), own->message.size(), "it has more than %d scans",
                  kMostScans);
    std::longjmp(own->back, 1);
  };
  jpeg_mem_src(&jpeg, const_cast<std::uint8_t*>(data_of(bytes)), bytes.size());
  jpeg_read_header(&jpeg, TRUE);
  jpeg.out_color_space = JCS_RGB;
  if (begin(jpeg, image)) {
    jpeg_start_decompress(&jpeg);
    const auto& own = *static_cast<Image*>(image);
    while (jpeg.output_scanline < jpeg.output_height) {
      JSAMPROW row = const_cast<std::uint8_t*>(own.pixels.data()) +
                     std::size_t{jpeg.output_scanline} * jpeg.output_width * 3;
      jpeg_read_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_decompress(&jpeg);
  }
  jpeg_destroy_decompress(&jpeg);
  return true;
}

Image decode_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  JpegErrors errors = {};
  jpeg_decompress_struct jpeg = {};
  Image image;
  // The size is read first, the pixels then: what throws stands between two calls of libjpeg.
  const auto only_size = [](jpeg_decompress_struct& header, void* to) {
    auto& own = *static_cast<Image*>(to);
    own.width = static_cast<int>(std::min<JDIMENSION>(header.image_width, 1U << 30));
    own.height = static_cast<int>(std::min<JDIMENSION>(header.image_height, 1U << 30));
    return false;
  };
  if (!read_jpeg(bytes, errors, jpeg, only_size, &image))
    refuse(name, "JPEG", errors.message.data());
  image = sized(image.width, image.height, name);
  const auto all = [](jpeg_decompress_struct&, void*) { return true; };
  if (!read_jpeg(bytes, errors, jpeg, all, &image)) refuse(name, "JPEG", errors.message.data());
  return image;
}

Image decode_webp(std::span<const std::byte> bytes, const std::string& name) {
  int width = 0, height = 0;
  if (WebPGetInfo(data_of(bytes), bytes.size(), &width, &height) == 0)
    refuse(name, "WebP", "its header");
  Image image = sized(width, height, name);
  if (WebPDecodeRGBInto(data_of(bytes), bytes.size(), image.pixels.data(), image.pixels.size(),
                        width * 3) == nullptr)
    refuse(name, "WebP", "its pixels");
  return image;
}

}  // namespace

Image decode_image(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() > kMostImageBytes)
    throw usage_error("{} has {} bytes: {} at most", name, bytes.size(), kMostImageBytes);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 16));
  if (start.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, name);
  if (start.starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, name);
  if (start.starts_with("RIFF") && start.size() >= 12 && start.substr(8, 4) == "WEBP")
    return decode_webp(bytes, name);
  throw usage_error("{} is no PNG, JPEG or WebP file", name);
}

}  // namespace sinter::tools
