// SPDX-License-Identifier: Apache-2.0
// Images of files, their sizes and pieces.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"
#include "tools/json/base64.h"
#include "tools/vision/image_file.h"
#include "tools/vision/image_processor.h"
#include "tools/vision/resample.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using tools::Image;

json read(const std::string& path) {
  std::ifstream file(source_dir() + path);
  return json::parse(file);
}

std::vector<std::uint8_t> pixels_of(const json& text) {
  const std::string bytes = *tools::bytes_of_base64(text.get<std::string>());
  return {bytes.begin(), bytes.end()};
}

Image image_of(int width, int height) {
  Image image{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(i * 7 % 251));
  return image;
}

template <class Body>
std::string refusal(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "it was taken";
}

std::string decoding(const std::string& bytes) {
  return refusal([&] { tools::decode_image(std::as_bytes(std::span(bytes)), "image 1"); });
}

TEST(Resample, GivesWhatPillowGives) {
  const json golden = read("/tests/tools/goldens/resampled.json");
  const Image image{golden["width"], golden["height"], pixels_of(golden["pixels"])};
  for (const json& each : golden["cases"]) {
    const auto filter = static_cast<tools::ResampleFilter>(each["filter"].get<int>());
    const Image found = tools::resampled(image, each["width"], each["height"], filter);
    EXPECT_EQ(found.width, each["width"]);
    EXPECT_EQ(found.pixels, pixels_of(each["pixels"]))
        << each["filter"] << ": " << each["width"] << " x " << each["height"];
  }
}

TEST(Resample, CropsAreBlackBeyondTheImage) {
  const Image image = image_of(3, 2);
  EXPECT_EQ(tools::cropped(image, 0, 0, 3, 2).pixels, image.pixels);
  const Image part = tools::cropped(image, 2, -1, 2, 2);
  const std::vector<std::uint8_t> wanted = {0, 0, 0, 0, 0, 0, 42, 49, 56, 0, 0, 0};
  EXPECT_EQ(part.pixels, wanted);
}

TEST(ImageFile, KindsAreDecoded) {
  const json golden = read("/tests/models/vision/cases.json");
  const std::pair<const char*, std::pair<int, int>> sizes[] = {
      {"wide", {61, 34}}, {"tall", {40, 90}}, {"small", {20, 17}}, {"clear", {48, 48}}};
  for (const auto& [name, size] : sizes) {
    const std::string bytes = *tools::bytes_of_base64(golden["images"][name].get<std::string>());
    const Image image = tools::decode_image(std::as_bytes(std::span(bytes)), name);
    EXPECT_EQ(std::pair(image.width, image.height), size) << name;
    EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(size.first * size.second * 3));
    for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 3)
      EXPECT_THAT(decoding(bytes.substr(0, length)), HasSubstr("image 1 is ")) << name << length;
  }
}

TEST(ImageFile, BadFilesAreRefused) {
  EXPECT_THAT(decoding("GIF89a"), HasSubstr("no PNG, JPEG or WebP"));
  EXPECT_THAT(decoding(""), HasSubstr("no PNG, JPEG or WebP"));
  EXPECT_THAT(decoding(std::string(tools::kMostImageBytes + 1, 'x')), HasSubstr("bytes"));
  // A header of 60,000 x 60,000 pixels, with its checksum.
  const std::string large = *tools::bytes_of_base64(
      "iVBORw0KGgoAAAANSUhEUgAA6mAAAOpgCAIAAAAPsOIVAAAACUlEQVR4nGMAAAABAAFe/335");
  EXPECT_THAT(decoding(large), HasSubstr("60000 x 60000 pixels"));
}

class ProcessorTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const json& config) const {
    std::ofstream(folder_ + "/p.json") << config;
    return folder_ + "/p.json";
  }
  tools::ImageProcessor processor(const json& config) const {
    return tools::ImageProcessor(write(config));
  }
  std::string refused(const json& change) const {
    json config = kPlain;
    config.update(change);
    const std::string file = write(config);
    return refusal([&] { tools::read_pixel_config(file); });
  }
  static inline const json kPlain = {{"size", {{"height", 8}, {"width", 8}}},
                                     {"image_mean", {0.5, 0.5, 0.5}},
                                     {"image_std", {0.5, 0.5, 0.5}}};

 private:
  std::string folder_ = testing::TempDir() + "sinter_vision_" + std::to_string(::getpid());
};

TEST_F(ProcessorTest, TilesStandBeforeTheWhole) {
  const auto tiles = processor({{"size", {{"longest_edge", 96}}},
                                {"max_image_size", {{"longest_edge", 32}}},
                                {"do_image_splitting", true},
                                {"image_mean", {0, 0, 0}},
                                {"image_std", {1, 1, 1}}});
  const auto pieces = tiles.pieces(image_of(61, 34));
  EXPECT_EQ(pieces.rows, 2);
  EXPECT_EQ(pieces.columns, 3);
  EXPECT_EQ(pieces.count, 7);
  EXPECT_EQ(pieces.pixels.size(), 7U * 32 * 32 * 3);
  EXPECT_THAT(refusal([&] { tiles.pieces(image_of(2000, 1)); }), "it was taken");
}

TEST_F(ProcessorTest, EdgesAndCrops) {
  const auto middle = processor({{"size", {{"shortest_edge", 8}}},
                                 {"do_center_crop", true},
                                 {"crop_size", 6},
                                 {"image_mean", {0, 0, 0}},
                                 {"image_std", {1, 1, 1}}});
  EXPECT_EQ(middle.width(), 6);
  const auto pieces = middle.pieces(image_of(16, 8));
  EXPECT_EQ(pieces.count, 1);
  EXPECT_EQ(pieces.pixels, tools::cropped(image_of(16, 8), 5, 1, 6, 6).pixels);
}

TEST_F(ProcessorTest, WhatIsNotKnownIsRefused) {
  EXPECT_THAT(refused(json::object()), "it was taken");
  EXPECT_THAT(refused({{"size", nullptr}}), HasSubstr("'size' is missing"));
  EXPECT_THAT(refused({{"size", {{"height", 0}, {"width", 8}}}}), HasSubstr("'height'"));
  EXPECT_THAT(refused({{"size", {{"shortest_edge", 8}}}}), HasSubstr("no size that all images"));
  EXPECT_THAT(refused({{"image_mean", {1, 2}}}), HasSubstr("'image_mean'"));
  EXPECT_THAT(refused({{"image_std", {1, 0, 1}}}), HasSubstr("'image_std'"));
  EXPECT_THAT(refused({{"resample", 9}}), HasSubstr("'resample'"));
  EXPECT_THAT(refused({{"do_pan_and_scan", true}}), HasSubstr("'do_pan_and_scan'"));
  EXPECT_THAT(refused({{"merge_size", 2}}), HasSubstr("'merge_size'"));
}

TEST(Base64, IsRead) {
  for (const std::string text : {"", "f", "fo", "foo", "foob", "\xff\xfe\x00\x01"})
    EXPECT_EQ(tools::bytes_of_base64(tools::base64(std::as_bytes(std::span(text)))), text);
  const std::string four = "foob";
  EXPECT_EQ(tools::base64(std::as_bytes(std::span(four))), "Zm9vYg==");
  for (const char* bad : {"Zm9", "Zm9v=", "Zm9*", "====", "Z===", "Zg==Zg==", "Zm9v\nZg=="})
    EXPECT_EQ(tools::bytes_of_base64(bad), std::nullopt) << bad;
}

}  // namespace
}  // namespace sinter::tests
