// SPDX-License-Identifier: Apache-2.0
// One request has one answer, whatever it looks like.
#include <fmt/format.h>

#include "tests/tools/serve/http/http_fixture.h"

namespace sinter::tests {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(HttpTest, PipelinedRequestsAreAnsweredInOrder) {
  begin();
  std::string all;
  for (int i = 0; i < 10; ++i)
    all += i % 2 == 0 ? fmt::format("GET /name/{} HTTP/1.1\r\nHost: x\r\n\r\n", i)
                      : fmt::format("{}Content-Length: 1\r\n\r\n{}", kPost, i);
  const std::string got = ask(all + kGet + kEnd);
  EXPECT_EQ(statuses(got), std::vector<int>(11, 200));
  for (std::size_t i = 0, at = 0; i < 10; ++i) {
    at = got.find(fmt::format("\r\n\r\n{}", i), at);
    EXPECT_NE(at, std::string::npos) << i;
  }
}

TEST_F(HttpTest, ManyPipelinedRequestsAreAnsweredAsTheyAreRead) {
  begin();
  constexpr int kCount = 3000;  // more than is read ahead
  const RawClient client(port_);
  std::thread sends([&] {
    for (int i = 0; i < kCount; ++i) client.send(kGet + (i + 1 < kCount ? "\r\n" : kEnd));
  });
  EXPECT_EQ(statuses(client.read()).size(), static_cast<std::size_t>(kCount));
  sends.join();
}

TEST_F(HttpTest, EmptyLinesInFrontAreNoHarmHoweverTheyAreCut) {
  begin();
  EXPECT_EQ(statuses(ask("\r\n\r\n\r\n" + kGet + kEnd)), std::vector<int>{200});
  const RawClient client(port_);
  for (const std::string& part : {"\r\n"s, "\r"s, "\n\r\n"s, kGet, kEnd}) {
    client.send(part);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(statuses(client.read()), std::vector<int>{200});
}

// Other servers and proxies read each of these in another way.
TEST_F(HttpTest, WhatMayBeReadInTwoWaysIsRefused) {
  begin();
  const std::string chunked = kPost + "Transfer-Encoding: chunked\r\n";
  const std::vector<std::string> all = {
      "GET /quick HTTP/1.1\nHost: x\n\n",
      "GET /quick HTTP/1.1\r\nHost: x\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\nA: b\rc\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\n A: b\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\nAb\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"s,
      "GET /qu\0ick HTTP/1.1\r\nHost: x\r\n\r\n"s,
      "GET  /quick HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /quick  HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /qu ick HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /quick\r\nHost: x\r\n\r\n",
      "GET /quick HTTP/1.1 \r\nHost: x\r\n\r\n",
      "G(T /quick HTTP/1.1\r\nHost: x\r\n\r\n",
      " GET /quick HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET /quick HTTP/1.1\r\n\r\n",
      "GET /quick HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
      "\x16\x03\x01\x02\x01\x01",
      kPost + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
      kPost + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
      kPost + "Content-Length: 3, 3\r\n\r\nabc",
      kPost + "Content-Length: +3\r\n\r\nabc",
      kPost + "Content-Length: -3\r\n\r\nabc",
      kPost + "Content-Length: 0x3\r\n\r\nabc",
      kPost + "Content-Length: 3 3\r\n\r\nabc",
      kPost + "Content-Length:\r\n\r\nabc",
      kPost + "Content-Length: 99999999999999999999\r\n\r\nabc",
      kPost + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      chunked + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      chunked + "\r\n3\nabc\r\n0\r\n\r\n",
      chunked + "\r\n3\r\nabc\n0\r\n\r\n",
      chunked + "\r\n3\r\nabcd\r\n0\r\n\r\n",
      chunked + "\r\n-3\r\nabc\r\n0\r\n\r\n",
      chunked + "\r\n+3\r\nabc\r\n0\r\n\r\n",
      chunked + "\r\n0x3\r\nabc\r\n0\r\n\r\n",
      chunked + "\r\n3 \r\nabc\r\n0\r\n\r\n",
      chunked + "\r\n 3\r\nabc\r\n0\r\n\r\n",
      chunked + "\r\n\r\nabc\r\n0\r\n\r\n",
      chunked + "\r\nq\r\nabc\r\n0\r\n\r\n",
      chunked + "\r\n10000000000000003\r\nabc\r\n0\r\n\r\n"};
  for (const std::string& text : all) {
    const std::string got = ask(text + kGet + kEnd);
    EXPECT_THAT(statuses(got), ElementsAre(400)) << text << "\n--\n" << got;
    EXPECT_THAT(got, HasSubstr("Connection: close"));
  }
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, chunked", "identity", "xchunked"})
    EXPECT_THAT(
        statuses(ask(kPost + "Transfer-Encoding: " + coding + "\r\n\r\n0\r\n\r\n" + kGet + kEnd)),
        ElementsAre(501))
        << coding;
  EXPECT_THAT(statuses(ask("GET /quick HTTP/2.0\r\nHost: x\r\n\r\n")), ElementsAre(505));
  EXPECT_EQ(handled_, 0);
  EXPECT_GT(refused(http::Refused::kMalformed), 40U);
}

TEST_F(HttpTest, ABodyIsNeverTheNextRequest) {
  begin();
  const std::string inner = kGet + kEnd;
  for (const char* start :
       {"GET /quick", "GET /stream", "POST /nothing", "DELETE /echo", "POST /quick", "BREW /echo",
        "OPTIONS /echo", "HEAD /quick", "POST /echo"}) {
    gate_.open();
    for (const std::string& more : {std::string(), std::string("X-Refuse: 1\r\n")}) {
      for (const bool is_chunked : {false, true}) {
        const std::string body =
            is_chunked ? fmt::format(
                             "Transfer-Encoding: chunked\r\n\r\n{:x}"
                             "\r\n{}\r\n0\r\n\r\n",
                             inner.size(), inner)
                       : fmt::format("Content-Length: {}\r\n\r\n{}", inner.size(), inner);
        handled_ = 0;
        const std::string got =
            ask(fmt::format("{} HTTP/1.1\r\nHost: x\r\n{}{}{}", start, more, body,
                            "GET /name/last HTTP/1.1\r\nHost: x\r\n" + kEnd));
        const std::vector<int> codes = statuses(got);
        // An echo has a request in its body.
        const bool is_echo = std::string(start) == "POST /echo" && more.empty();
        EXPECT_EQ(codes.size(), 2U) << start << "\n" << got;
        EXPECT_LE(handled_, 1);
        EXPECT_TRUE(got.ends_with("last")) << got;
        if (is_echo) {
          EXPECT_THAT(got, HasSubstr(inner));
        }
      }
    }
  }
  // One that is too long to be thrown away ends the connection, at once.
  const std::string got =
      ask("POST /nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_THAT(statuses(got), ElementsAre(404));
  EXPECT_THAT(got, HasSubstr("Connection: close"));
  EXPECT_THAT(statuses(ask("GET /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")),
              ElementsAre(400));
}

TEST_F(HttpTest, ChunksAreDecodedAndCounted) {
  limits_.body_bytes = 1000;
  begin();
  const std::string head = kPost + "Transfer-Encoding: Chunked\r\n" + kEnd;
  EXPECT_EQ(body_of(ask(head + "3\r\nabc\r\n00A;x=\"y\"\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n")),
            "abc0123456789");
  const std::string piece = "64\r\n" + std::string(100, 'a') + "\r\n";
  std::string ten, eleven = piece;
  for (int i = 0; i < 10; ++i) ten += piece;
  EXPECT_EQ(body_of(ask(head + ten + "0\r\n\r\n")), std::string(1000, 'a'));
  EXPECT_THAT(statuses(ask(head + ten + piece + "0\r\n\r\n")), ElementsAre(413));
  EXPECT_THAT(statuses(ask(head + "7fffffffffffffff\r\n" + std::string(2000, 'a'))),
              ElementsAre(413));
  EXPECT_THAT(statuses(ask(kPost + "Content-Length: 1001\r\n\r\n")), ElementsAre(413));
  // What is in no body is not kept either.
  EXPECT_THAT(statuses(ask(head + "1;" + std::string(200'000, 'x') + "\r\na\r\n0\r\n\r\n")),
              ElementsAre(400));
  std::string trailers;
  for (int i = 0; i < 20'000; ++i) trailers += "Trailer: 123456789\r\n";
  EXPECT_THAT(statuses(ask(head + "0\r\n" + trailers + "\r\n")), ElementsAre(400));
}

TEST_F(HttpTest, HeadsHaveLimits) {
  limits_.header_bytes = 4096;
  limits_.target_bytes = 1024;
  limits_.headers = 20;
  begin();
  EXPECT_THAT(statuses(ask("GET /" + std::string(2000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n")),
              ElementsAre(414));
  EXPECT_THAT(statuses(ask("GET /" + std::string(100000, 'a'))), ElementsAre(414));
  EXPECT_THAT(statuses(ask(kGet + "A: " + std::string(5000, 'a') + "\r\n\r\n")), ElementsAre(431));
  std::string many;
  for (int i = 0; i < 25; ++i) many += fmt::format("A{}: b\r\n", i);
  EXPECT_THAT(statuses(ask(kGet + many + "\r\n")), ElementsAre(431));
  // Without an end, too: nothing is kept of it.
  const RawClient client(port_);
  client.send(kGet);
  for (int i = 0; i < 1000; ++i)
    if (!client.send("A: " + std::string(1000, 'a') + "\r\n")) break;
  EXPECT_THAT(statuses(client.read()), ElementsAre(431));
  EXPECT_EQ(refused(http::Refused::kHead), 5U);
}

TEST_F(HttpTest, BytesMayComeOneByOne) {
  begin();
  const RawClient client(port_);
  for (const char c : "\r\n" + kPost + "Transfer-Encoding: chunked\r\n" + kEnd +
                          "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    client.send({&c, 1});
  EXPECT_EQ(body_of(client.read()), "abcde");
}

TEST_F(HttpTest, MethodsAreAnsweredAsTheyMust) {
  begin();
  const std::string head = ask("HEAD /quick HTTP/1.1\r\nHost: x\r\n" + kEnd);
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
  EXPECT_THAT(statuses(ask("HEAD /endless HTTP/1.1\r\nHost: x\r\n" + kEnd)), ElementsAre(200));
  const std::string options = ask("OPTIONS /echo HTTP/1.1\r\nHost: x\r\n" + kEnd);
  EXPECT_THAT(statuses(options), ElementsAre(204));
  EXPECT_THAT(options, HasSubstr("Allow: OPTIONS, POST\r\n"));
  EXPECT_THAT(options, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(ask("OPTIONS * HTTP/1.1\r\nHost: x\r\n" + kEnd),
              HasSubstr("Allow: GET, HEAD, OPTIONS, POST\r\n"));
  const std::string wrong = ask("PUT /quick HTTP/1.1\r\nHost: x\r\n" + kEnd);
  EXPECT_THAT(statuses(wrong), ElementsAre(405));
  EXPECT_THAT(wrong, HasSubstr("Allow: GET, HEAD, OPTIONS\r\n"));
  EXPECT_THAT(statuses(ask("GET /quick/ HTTP/1.1\r\nHost: x\r\n" + kEnd)), ElementsAre(404));
  EXPECT_THAT(statuses(ask("GET * HTTP/1.1\r\nHost: x\r\n" + kEnd)), ElementsAre(404));
  EXPECT_THAT(statuses(ask("CONNECT x:1 HTTP/1.1\r\nHost: x\r\n" + kEnd)), ElementsAre(404));
  EXPECT_THAT(statuses(ask("POST /throw HTTP/1.1\r\nHost: x\r\n" + kEnd)), ElementsAre(500));
}

TEST_F(HttpTest, TargetsAreSplitAndDecoded) {
  begin();
  const auto path = [&](const std::string& target) {
    return body_of(ask("GET " + target + " HTTP/1.1\r\nHost: x\r\n" + kEnd));
  };
  EXPECT_EQ(path("/name/a%2Fb%20c?d=e"), "a/b c");
  EXPECT_EQ(path("http://other:1/host?a"), "other:1/host");
  EXPECT_EQ(path("/host"), "x/host");
  for (const char* bad : {"/name/%", "/name/%2", "/name/%zz", "/name/%00", "/name/"})
    EXPECT_THAT(statuses(ask(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n{}", bad, kEnd))),
                ElementsAre(404))
        << bad;
}

TEST_F(HttpTest, ExpectationsAreAnswered) {
  begin();
  const RawClient client(port_);
  client.send(kPost + "Expect: 100-continue\r\nContent-Length: 3\r\n" + kEnd);
  EXPECT_THAT(statuses(client.read("\r\n\r\n")), ElementsAre(100));
  client.send("abc");
  EXPECT_EQ(body_of(client.read()), "abc");
  // Who is refused need not send the body.
  const std::string got =
      ask(kPost + "X-Refuse: 1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  EXPECT_THAT(statuses(got), ElementsAre(401));
  EXPECT_THAT(got, HasSubstr("Connection: close"));
  EXPECT_THAT(statuses(ask(kPost + "Expect: tea\r\nContent-Length: 3\r\n" + kEnd + "abc")),
              ElementsAre(417));
}

TEST_F(HttpTest, CompressedBodiesAreRefused) {
  begin();
  for (const char* coding : {"gzip", "br", "deflate", "zstd", "GZIP, gzip"})
    EXPECT_THAT(statuses(ask(fmt::format("{}Content-Encoding: {}\r\nContent-Length: 3\r\n{}abc",
                                         kPost, coding, kEnd))),
                ElementsAre(415))
        << coding;
  EXPECT_EQ(
      body_of(ask(kPost + "Content-Encoding: identity\r\nContent-Length: 3\r\n" + kEnd + "abc")),
      "abc");
}

TEST_F(HttpTest, OlderClientsAreAnswered) {
  begin();
  const std::string got = ask("GET /quick HTTP/1.0\r\n\r\n");
  EXPECT_THAT(statuses(got), ElementsAre(200));
  EXPECT_THAT(got, HasSubstr("Connection: close"));
  gate_.open();
  const std::string stream = ask("GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_THAT(stream, Not(HasSubstr("chunked")));
  EXPECT_EQ(body_of(stream), "done");
  EXPECT_THAT(statuses(ask("GET /quick HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                           "GET /quick HTTP/1.0\r\n\r\n")),
              ElementsAre(200, 200));
}

}  // namespace
}  // namespace sinter::tests
