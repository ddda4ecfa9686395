// SPDX-License-Identifier: Apache-2.0
// Sound for the server, which takes WAV, FLAC, Ogg and MP3: what else the browser can decode, recordings too, becomes WAV (mono, 16 kHz).
const kRate = 16_000;
const kTaken = /\.(wav|flac|ogg|oga|mp3)$/i;

export function wavOf(samples, rate) {
  const bytes = new DataView(new ArrayBuffer(44 + samples.length * 2));
  const write = (at, text) => [...text].forEach((sign, i) => bytes.setUint8(at + i, sign.charCodeAt(0)));
  write(0, 'RIFF');
  bytes.setUint32(4, 36 + samples.length * 2, true);
  write(8, 'WAVEfmt ');
  bytes.setUint32(16, 16, true);
  bytes.setUint16(20, 1, true);
  bytes.setUint16(22, 1, true);
  bytes.setUint32(24, rate, true);
  bytes.setUint32(28, rate * 2, true);
  bytes.setUint16(32, 2, true);
  bytes.setUint16(34, 16, true);
  write(36, 'data');
  bytes.setUint32(40, samples.length * 2, true);
  samples.forEach((value, i) => bytes.setInt16(44 + i * 2, Math.max(-1, Math.min(1, value)) * 32767, true));
  return new Blob([bytes], {type: 'audio/wav'});
}

/// A File that the server takes. Throws an Error for what is no sound.
export async function soundFile(file) {
  if (kTaken.test(file.name)) return file;
  try {
    // An offline context decodes without a device for sound, and to its own rate.
    const sound = await new OfflineAudioContext(1, 1, kRate).decodeAudioData(await file.arrayBuffer());
    const samples = new Float32Array(sound.length);
    for (let channel = 0; channel < sound.numberOfChannels; ++channel)
      sound.getChannelData(channel).forEach((value, i) => { samples[i] += value / sound.numberOfChannels; });
    return new File([wavOf(samples, sound.sampleRate)], `${file.name.replace(/\.\w+$/, '')}.wav`, {type: 'audio/wav'});
  } catch {
    throw new Error(`'${file.name}' is no sound that this browser can decode`);
  }
}

/// Records until stop(), which gives a File.
export class Recorder {
  static isThere() { return navigator.mediaDevices?.getUserMedia !== undefined && typeof MediaRecorder !== 'undefined'; }
  async start() {
    this.stream = await navigator.mediaDevices.getUserMedia({audio: true});
    this.parts = [];
    this.recorder = new MediaRecorder(this.stream);
    this.recorder.ondataavailable = (event) => this.parts.push(event.data);
    this.recorder.start(1000);
  }
  stop() {
    return new Promise((resolve) => {
      this.recorder.onstop = () => {
        for (const track of this.stream.getTracks()) track.stop();
        resolve(new File(this.parts, 'recording.webm', {type: this.recorder.mimeType}));
      };
      this.recorder.stop();
    });
  }
}
