// SPDX-License-Identifier: Apache-2.0
// Whisper's weights in a folder of CTranslate2. tests/models/check_encoders.py transcribes with
// them.
#include "frontend/decoders/files/ct2.h"

#include "tests/frontend/op_test_support.h"

namespace sinter::frontend {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <typename T>
std::string bytes_of_number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string ct2_text(const std::string& name) {
  return bytes_of_number(static_cast<std::uint16_t>(name.size() + 1)) + name + '\0';
}

std::string ct2_variable(const std::string& name, const std::vector<std::uint32_t>& shape,
                         std::uint8_t type, const std::string& data) {
  std::string all = ct2_text(name) + bytes_of_number(static_cast<std::uint8_t>(shape.size()));
  for (const std::uint32_t size : shape) all += bytes_of_number(size);
  return all + bytes_of_number(type) + bytes_of_number(static_cast<std::uint32_t>(data.size())) +
         data;
}

std::string ct2_model(const std::vector<std::string>& variables,
                      const std::string& kind = "WhisperSpec", std::uint32_t version = 6) {
  std::string all = bytes_of_number(version) + ct2_text(kind) + bytes_of_number(std::uint32_t{3}) +
                    bytes_of_number(static_cast<std::uint32_t>(variables.size()));
  for (const std::string& each : variables) all += each;
  return all + bytes_of_number(std::uint32_t{0});
}

std::vector<std::string> small_ct2() {
  return {ct2_variable("encoder/num_heads", {}, 2, bytes_of_number(std::int16_t{2})),
          ct2_variable("encoder/conv1/weight", {2, 4, 3}, 0, std::string(96, '\0')),
          ct2_variable("encoder/position_encodings/encodings", {6, 2}, 0, std::string(48, '\0')),
          ct2_variable("decoder/position_encodings/encodings", {5, 2}, 0, std::string(40, '\0')),
          ct2_variable("decoder/embeddings/weight", {10, 2}, 0, std::string(80, '\0')),
          ct2_variable("decoder/layer_0/attention/linear_1/weight", {4, 2}, 0,
                       std::string(16, '\1') + std::string(16, '\2'))};
}

Ct2Model opened_ct2(const std::string& bytes) {
  const TemporaryFolder folder;
  folder.write("model.bin", bytes);
  EXPECT_TRUE(is_ct2(folder.path()));
  return open_ct2(folder.path());
}

std::string refused_ct2(const std::string& bytes, ErrorCode code = ErrorCode::kInvalidModel) {
  try {
    opened_ct2(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "it was read";
}

TEST(Ct2, TensorsHaveHuggingFacesNames) {
  const Ct2Model found = opened_ct2(ct2_model(small_ct2()));
  EXPECT_THAT(found.config,
              AllOf(HasSubstr(R"("encoder_attention_heads":2)"), HasSubstr(R"("num_mel_bins":4)"),
                    HasSubstr(R"("max_target_positions":5)")));
  const StoredTensor values = found.file->read("model.decoder.layers.0.encoder_attn.v_proj.weight");
  EXPECT_EQ(values.shape, (ir::Ints{2, 2}));
  EXPECT_EQ(std::get<ir::Tensor>(values.value).hold().bytes[0], std::byte{2});
}

TEST(Ct2, EveryCutIsOneError) {
  const std::string whole = ct2_model(small_ct2());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refused_ct2(whole.substr(0, size)), "it was read") << size;
  EXPECT_THAT(refused_ct2(whole + "x"), HasSubstr("behind"));
}

TEST(Ct2, RefusesByName) {
  EXPECT_THAT(refused_ct2(ct2_model({}, "TransformerSpec"), ErrorCode::kUnsupported),
              AllOf(HasSubstr("'TransformerSpec'"), HasSubstr("pysinter[export]")));
  EXPECT_THAT(refused_ct2(ct2_model({}, "WhisperSpec", 7), ErrorCode::kUnsupported),
              HasSubstr("version 7"));
  EXPECT_THAT(
      refused_ct2(ct2_model({ct2_variable("a", {4294967295, 4294967295, 4294967295}, 0, "")})),
      HasSubstr("'a' has more elements"));
  EXPECT_THAT(refused_ct2(ct2_model({ct2_variable("a", {3}, 0, "1234")})),
              HasSubstr("3 elements in 4 bytes"));
  EXPECT_THAT(refused_ct2(ct2_model({ct2_variable("a", {1}, 9, "1234")})), HasSubstr("type 9"));
  EXPECT_THAT(refused_ct2(ct2_model(
                  {ct2_variable("a", {1}, 0, "1234"), ct2_variable("a", {1}, 0, "1234")})),
              HasSubstr("'a' twice"));
  EXPECT_THAT(refused_ct2(ct2_model({})), HasSubstr("has no 'model.encoder"));
  EXPECT_THAT(refused_ct2(ct2_model(std::vector<std::string>((1 << 16) + 1))),
              HasSubstr("has 65537 variables"));
  auto variables = small_ct2();
  variables.push_back(ct2_variable("encoder/layer_0/self_attention/linear_0/weight", {4, 2}, 0,
                                   std::string(32, '\0')));
  EXPECT_THAT(refused_ct2(ct2_model(variables)), HasSubstr("4 rows for 3 matrices"));
}

}  // namespace
}  // namespace sinter::frontend
