// SPDX-License-Identifier: Apache-2.0
// Folders and indices of safetensors; tests/tools/refit_test.cpp has what one file may be.
#include "frontend/decoders/files/safetensors.h"

#include <cstring>

#include "frontend/decoders/files/tensor_file.h"
#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A file of one element of float32, 1.
std::string one(const std::string& name) {
  const std::string header =
      "{\"" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  return bytes + header + std::string("\0\0\x80\x3f", 4);
}

std::string index_of(const std::string& map) {
  return R"({"metadata":{},"weight_map":)" + map + "}";
}

TEST(SafetensorsFolder, OneFileOrShards) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", one("a"));
  const auto only = open_safetensors(folder.path());
  EXPECT_THAT(only->names(), ElementsAre("a"));
  EXPECT_EQ(only->type("a"), "F32");
  EXPECT_THAT(only->shape("a"), ElementsAre(1));
  EXPECT_EQ(std::get<ir::Tensor>(only->read("a").value).at(0), 1);
  folder.write("y.safetensors", one("b"));
  EXPECT_THAT(error_of(ErrorCode::kInvalidModel, [&] { (void)open_safetensors(folder.path()); }),
              HasSubstr("2 files"));
  folder.write("model.safetensors.index.json",
               index_of(R"({"a":"x.safetensors","b":"y.safetensors"})"));
  const auto both = open_safetensors(folder.path());
  EXPECT_THAT(both->names(), ElementsAre("a", "b"));
  EXPECT_EQ(both->paths().size(), 3U);
  EXPECT_TRUE(both->has("b"));
  EXPECT_THAT(error_of(ErrorCode::kInvalidModel, [&] { (void)both->read("c"); }),
              HasSubstr("no tensor 'c'"));
}

/// Many tensors take memory, however small they are.
TEST(SafetensorsFolder, ListsAreBounded) {
  const auto refusal = [](const std::string& header) {
    std::string bytes(8, '\0');
    const std::uint64_t size = header.size();
    std::memcpy(bytes.data(), &size, sizeof size);
    bytes += header;
    return error_of(ErrorCode::kUsage, [&] {
      (void)parse_safetensors(std::as_bytes(std::span(bytes)), nullptr, "it");
    });
  };
  const std::string entry = R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  std::string many = "{";
  for (int i = 0; i <= 1 << 16; ++i) many += "\"" + std::to_string(i) + entry;
  many.back() = '}';
  EXPECT_THAT(refusal(many), HasSubstr("more than 65536 tensors"));
  std::string dims = R"({"a":{"dtype":"F32","shape":[)";
  for (int i = 0; i < 100; ++i) dims += "1,";
  EXPECT_THAT(refusal(dims + R"(1],"data_offsets":[0,4]}})"), HasSubstr("more than 64 numbers"));
  EXPECT_THAT(refusal("{\"a" + entry + "\"a" + entry + R"("b":{}})"),
              HasSubstr("tensor 'a' is there twice"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no JSON object"));
}

TEST(SafetensorsFolder, IndicesAreRefusedByName) {
  const TemporaryFolder folder;
  folder.write("x.safetensors", one("a"));
  const auto refusal = [&](const std::string& index) {
    const std::string path = folder.write("model.safetensors.index.json", index);
    return error_of(ErrorCode::kInvalidModel, [&] { (void)open_safetensors(path); });
  };
  EXPECT_THAT(refusal("{"), HasSubstr("is not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no 'weight_map'"));
  EXPECT_THAT(refusal(index_of("{}")), HasSubstr("no 'weight_map'"));
  EXPECT_THAT(refusal(index_of(R"({"a":1})")), HasSubstr("has no text for tensor 'a'"));
  for (const char* file : {"../x.safetensors", "/etc/passwd", "..", "sub/x.safetensors", ""})
    EXPECT_THAT(refusal(index_of("{\"a\":\"" + std::string(file) + "\"}")),
                AllOf(HasSubstr("for tensor 'a'"), HasSubstr("a file beside it")))
        << file;
  EXPECT_THAT(refusal(index_of(R"({"a":"none.safetensors"})")), HasSubstr("none.safetensors"));
  EXPECT_THAT(refusal(index_of(R"({"a":"x.safetensors","a":"x.safetensors"})")),
              HasSubstr("tensor 'a' twice"));
  EXPECT_THAT(refusal(index_of(R"({"b":"x.safetensors"})")),
              HasSubstr("tensor 'b' is not in 'x.safetensors'"));
  folder.write("x.safetensors", std::string(8, '\xff'));
  EXPECT_THAT(refusal(index_of(R"({"a":"x.safetensors"})")), HasSubstr("header would have"));
}

}  // namespace
}  // namespace sinter::frontend
