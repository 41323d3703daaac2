/** A question with its images as a file of answers in the neutral format, in which the API takes questions. Pure. */

/** Largest sum of images that the API takes with one question, in bytes of base64. */
export const MAX_IMAGES_BYTES = 40 * 1024 ** 2;

/** One line without an answer after the header; `images` are data URLs. */
export function questionFile(question: string, images: readonly string[]): string {
  const header = { schema: 'vlmhb/answers/v1', format: 'question', tool: null, model: null, task: null, decoding: {} };
  const row = {
    key: 'question',
    repeat: 0,
    question,
    references: [],
    image_urls: images,
    text: null,
    error: 'it is asked',
  };
  return `${JSON.stringify(header)}\n${JSON.stringify(row)}\n`;
}

/** Why these images cannot be sent; undefined if they can. */
export function problemOf(images: readonly string[]): string | undefined {
  const bytes = images.reduce((sum, image) => sum + image.length, 0);
  return bytes > MAX_IMAGES_BYTES
    ? 'The images are larger than 40 MiB together. Take fewer or smaller ones.'
    : undefined;
}

/** Read a file as a data URL. */
export function dataUrl(file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error('The image cannot be read. Choose it again.'));
    reader.readAsDataURL(file);
  });
}
