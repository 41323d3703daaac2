/** The list of keys, opened by `?`. */
import { Kbd, Modal } from '@mantine/core';
import { NAVIGATION } from './navigation';

const KEYS: readonly (readonly [readonly string[], string])[] = [
  [['Ctrl', 'K'], 'search runs and pages'],
  [['?'], 'this list'],
  [['j'], 'next row'],
  [['k'], 'row before'],
  [['o'], 'open the row'],
  [['n'], 'next error (of a sample)'],
  [['w'], 'next wrong answer (of a sample)'],
  [['f'], 'next flip (of a sample with a baseline)'],
  [['c'], 'compare the chosen runs (in runs)'],
];

export function Help({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const keys = [...KEYS, ...NAVIGATION.map(({ key, label }) => [['g', key], `go to ${label}`] as const)];
  return (
    <Modal opened={opened} onClose={onClose} title="Keys" size="sm" closeButtonProps={{ 'aria-label': 'Close' }}>
      <dl className="keys">
        {keys.map(([pressed, meaning]) => (
          <div key={meaning}>
            <dt>
              {pressed.map((key) => (
                <Kbd key={key} size="sm">
                  {key}
                </Kbd>
              ))}
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Modal>
  );
}
