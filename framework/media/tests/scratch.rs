//! scratch
use rehearsal_media::*;
use std::time::Instant;
#[test]
fn bench() {
    let spec = FrameSpec { path: "../../configs/media/reference.mp4".into(), bytes_min: 100_000, bytes_max: 200_000 };
    let dir = std::path::PathBuf::from("/tmp/mm/cache");
    for round in 0..3 {
        let _ = std::fs::remove_dir_all(&dir);
        let t = Instant::now();
        let f = prepare(&spec, &dir, &mut |_, _| {}).unwrap();
        let cold = t.elapsed();
        let t = Instant::now();
        let g = prepare(&spec, &dir, &mut |_, _| {}).unwrap();
        let warm = t.elapsed();
        let t = Instant::now();
        let h = prepare_sizes(&spec, &dir, &mut |_, _| {}).unwrap();
        let sizes = t.elapsed();
        assert_eq!(f.digest(), g.digest());
        assert_eq!(h.digest(), g.digest());
        println!("cold {cold:?} cached {warm:?} sizes {sizes:?} {:?}", f);
        if round == 0 {
            for i in [0u64, 40, 89] {
                std::fs::write(format!("/tmp/mm/f{i}.jpg"), f.frame(i)).unwrap();
            }
        }
    }
    let mut live = LiveEncoder::open(&spec).unwrap();
    let t = Instant::now();
    let mut same = 0;
    let mut worst = std::time::Duration::ZERO;
    let g = prepare(&spec, &dir, &mut |_, _| {}).unwrap();
    for i in 0..91 {
        let u = Instant::now();
        same += u32::from(live.encode_next().unwrap() == g.frame(i));
        worst = worst.max(u.elapsed());
    }
    println!("live {:?}/frame, worst {worst:?}, {same} of 91 same", t.elapsed() / 91);
    let f = g.frame(7);
    let t = Instant::now();
    for _ in 0..20 {
        jpeg::decode(&f).unwrap();
    }
    println!("decode {:?}", t.elapsed() / 20);
    let t = Instant::now();
    for _ in 0..1000 {
        jpeg::check_header(&f[..1024], &f[f.len() - 2..]).unwrap();
    }
    println!("check {:?}", t.elapsed() / 1000);
}
